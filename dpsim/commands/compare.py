"""``dpsim compare``: compare scenarios, or variants of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, save, show, show_json
from dpsim.commands.options import (
    Epochs,
    Json,
    Plot,
    Samples,
    Sets,
    Tokens,
    check_plot,
    draw,
    end_if_partial,
    with_amount,
)
from dpsim.commands.progress import progress

if TYPE_CHECKING:
    from dpsim.studies.compare import Comparison

Files = Annotated[
    list[Path], typer.Argument(help="Scenario files (YAML), one or more.", show_default=False)
]
Vary = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=A,B,...", help="A field and its values. Repeat it for combinations."),
]
Alternative = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=A,KEY=B,...",
        help="Values of one variant, beside the file as it is. Repeat it for more variants.",
    ),
]
By = Annotated[
    str,
    typer.Option(
        help="Rank by the smallest: sample-time, step-time, time-to-target, gpu-time, "
        "price, memory or bytes."
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(
        help=(
            "Write the timelines of the variants' first workers to this file, one above the other."
        )
    ),
]


def compare(
    files: Files,
    vary: Vary = None,
    alternative: Alternative = None,
    by: By = "sample-time",
    plot: Plot = None,
    html: Html = None,
    tokens: Tokens = None,
    samples: Samples = None,
    epochs: Epochs = None,
    set_: Sets = None,
    as_json: Json = False,
) -> None:
    """Predict scenarios, or variants of one, side by side, best first.

    Fields of the strategy and of other sections may be named without them: sync.kind. The exit code
    is 3 if the time limit left some out.

    Example: dpsim compare scenarios/quickstart.yaml
        --vary strategy.aggregation.algorithm=ring,tree,butterfly
    Example: dpsim compare scenarios/quickstart.yaml --alternative 'sync.kind=ssp'
        --alternative 'compression.kind=powersgd,rank=4'
    Example: dpsim compare scenarios/parameter-server.yaml --vary sync.kind=bsp,ssp,asp
        --html timelines.html
    Example: dpsim compare scenarios/quickstart.yaml scenarios/disturbed.yaml
    """
    from dpsim.studies.compare import compare as compare_variants
    from dpsim.studies.variants import variants

    if len(files) == 1 and not vary and not alternative:
        raise DpsimError("must have --vary, --alternative or a second file, but got one file alone")

    check_plot(plot)
    count = len(files) * len(variants(vary or (), alternative or ()))
    with progress("simulating variants", count) as done:
        comparison = compare_variants(
            files[0],
            vary or (),
            alternatives=alternative or (),
            others=files[1:],
            by=by,
            overrides=with_amount(set_, tokens, samples, epochs),
            progress=done,
            say=narrate,
        )

    draw(plot, comparison)
    if html is not None:
        _write_timelines(html, comparison)
    if as_json:
        show_json(comparison.to_json())
    else:
        from dpsim.report.text.comparison import comparison_table

        notes = ["", *comparison.notes] if comparison.notes else []
        show(comparison_table(comparison), *notes)
    end_if_partial(comparison)


def _write_timelines(path: Path, comparison: Comparison) -> None:
    from dpsim.report.figures.lanes_figure import lanes_figure
    from dpsim.report.pages.document import figures_page
    from dpsim.studies.lanes import VIEWS, WORKERS, lane

    steps = VIEWS["synchronisation"].steps
    lanes = [lane(row.name, row.scenario, WORKERS, steps=steps) for row in comparison.rows]
    title = f"The first steps of up to {WORKERS} workers"
    save(path, figures_page(title, [lanes_figure(lanes, "Waiting of workers over time")]))
