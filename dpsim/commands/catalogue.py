"""``dpsim catalogue``: list known hardware, models and algorithms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, show, show_answer
from dpsim.commands.options import Json


def catalogue(
    kind: Annotated[
        str,
        typer.Argument(help="gpus, links, nodes, models or algorithms; add adds your own file."),
    ] = "gpus",
    name: Annotated[
        str | None,
        typer.Argument(
            help=(
                "Name of an entry, or a part of it. With add: the YAML file of a GPU, link or node."
            ),
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the catalogue, show an entry with its sources, or add your own GPU, link or node.

    Your own entries are in ~/.config/dpsim/catalogue, or in the folder DPSIM_CATALOGUE.

    Example: dpsim catalogue nodes
    Example: dpsim catalogue gpus h100
    Example: dpsim catalogue models --json
    Example: dpsim catalogue add my-gpu.yaml
    """
    if kind == "add":
        _add(name, as_json)
        return
    from dpsim.report.text.catalogue import CATALOGUES, find_rows, short
    from dpsim.report.text.tables import catalogue_table

    rows = CATALOGUES[kind]() if name is None else find_rows(kind, name)
    if as_json:
        show_answer(kind, rows=rows)
    elif name is not None:
        show(catalogue_table(rows))
    else:
        more = f"all of one, with its sources: dpsim catalogue {kind} {rows[0]['name']}"
        show(catalogue_table([short(row) for row in rows]), "", more)


def _add(file: str | None, as_json: bool) -> None:
    from dpsim.hardware import add_entry

    if file is None:
        raise DpsimError("name: must be the YAML file of a GPU, a link or a node, but is missing")
    added = add_entry(Path(file))
    if as_json:
        show_answer(
            "catalogue-add",
            catalogue=added.catalogue,
            name=added.name,
            path=str(added.path),
            replaces=added.replaces,
        )
        return
    show(f"added {added.name} to the {added.catalogue}: {added.path}")
    if added.replaces:
        narrate(f"it replaces the {added.name} of the catalogue")
