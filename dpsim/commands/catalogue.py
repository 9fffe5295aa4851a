"""``dpsim catalogue``: what is known of hardware, models and algorithms."""

from __future__ import annotations

from typing import Annotated

import typer

from dpsim.base.terminal import show, show_json
from dpsim.commands.options import Json


def catalogue(
    kind: Annotated[str, typer.Argument(help="gpus, links, nodes, models or algorithms.")] = "gpus",
    as_json: Json = False,
) -> None:
    """List what is known, with sources.

    Example: dpsim catalogue nodes
    Example: dpsim catalogue models --json
    """
    from dpsim.report.text.catalogue import CATALOGUES
    from dpsim.report.text.tables import catalogue_table

    rows = CATALOGUES[kind]()
    if as_json:
        show_json({"schema_version": 1, "kind": kind, "rows": rows})
    else:
        show(catalogue_table(rows))
