"""``dpsim compare``: variants of a scenario side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

import typer

from dpsim.base.budget import limited
from dpsim.base.errors import ScenarioError
from dpsim.base.terminal import show, show_json
from dpsim.commands.options import File, Json, Sets
from dpsim.commands.progress import progress


@limited()
def compare(
    file: File,
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=A,B,...", help="A field and its values. Repeat it for combinations."
        ),
    ],
    set_: Sets = None,
    as_json: Json = False,
) -> None:
    """Predict variants of a scenario side by side, best first.

    Example: dpsim compare scenarios/quickstart.yaml
        --vary strategy.aggregation.algorithm=ring,tree,butterfly
    """
    from dpsim.studies.compare import simulate_variants, variants

    chosen = variants(vary)
    with progress("simulating variants", len(chosen)) as done, _said_of_vary(chosen):
        rows = sorted(
            simulate_variants(file, chosen, set_ or (), done),
            key=lambda row: row[1].step_time_s["mean"],
        )
    if as_json:
        show_json(
            {
                "schema_version": 1,
                "kind": "compare",
                "rows": [{"variant": variant, **result.to_json()} for variant, result in rows],
            }
        )
        return
    from dpsim.report.text.tables import compare_table

    show(compare_table(rows))


@contextmanager
def _said_of_vary(chosen: Iterable[Mapping[str, str]]) -> Iterator[None]:
    """Say of --vary, where it stands, what is wrong with a value.

    It is tried by --set, of which the user knows nothing.
    """
    try:
        yield
    except ScenarioError as error:
        text = str(error)
        for key, value in dict.fromkeys(pair for variant in chosen for pair in variant.items()):
            text = text.replace(f"--set {key}={value}: ", f"--vary {key}={value}: ")
        raise ScenarioError(text) from None
