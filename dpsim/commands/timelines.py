"""``dpsim timelines``: draw strategies over time, one below the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.base.terminal import narrate, save, show, show_json, table
from dpsim.commands.options import File, Json, Sets
from dpsim.commands.progress import progress

if TYPE_CHECKING:
    from dpsim.studies.lanes import Timelines

Of = Annotated[
    str,
    typer.Option(help="Strategies to draw: synchronisation, overlap (of one worker), sharding."),
]
Html = Annotated[
    Path | None,
    typer.Option(help="Write the timelines to this file, as a self-contained page."),
]
Slower = Annotated[
    float,
    typer.Option(
        min=1,
        max=1000,
        help="Compute time of the last worker relative to the others' (synchronisation).",
    ),
]
Step = Annotated[
    int,
    typer.Option(min=1, max=8, help="Step at which SSP's window is shown (synchronisation)."),
]


def timelines(
    file: File,
    of: Of = "synchronisation",
    html: Html = None,
    slower: Slower = 2.0,
    step: Step = 5,
    set_: Sets = None,
    as_json: Json = False,
) -> None:
    """Draw a scenario's model and network under several strategies, over time.

    Four workers, one per node, do the same computing under each: BSP, backup workers, SSP
    (with its window), ASP, local SGD and gossip; or WFBP, MG-WFBP, buckets and priorities; or FSDP.

    Example: dpsim timelines scenarios/quickstart.yaml --html strategies.html
    Example: dpsim timelines scenarios/quickstart.yaml --of overlap --html overlap.html
    """
    from dpsim.studies.lanes import VIEWS
    from dpsim.studies.lanes import timelines as simulate

    count = len(VIEWS[of].strategies) if of in VIEWS else 0
    with progress("simulating strategies", count) as done:
        views = simulate(file, of, slower=slower, step=step, overrides=set_ or (), progress=done)
    for name, reason in views.left_out.items():
        narrate(f"left out: {name}: {reason}")
    if html is not None:
        save(html, _page(views))
    if as_json:
        show_json(views.to_json())
        return
    from dpsim.base.units import TIME, human

    rows = [(lane.name, human(lane.mean_end, TIME)) for lane in views.lanes]
    show(table(VIEWS[of].title, ("strategy", "workers are done, in the mean"), rows))


def _page(views: Timelines) -> str:
    from dpsim.report.figures.lanes_figure import lanes_figure, window_figure
    from dpsim.report.pages.document import figures_page
    from dpsim.studies.lanes import VIEWS

    figures = [lanes_figure(views.lanes, VIEWS[views.of].title)]
    if views.window is not None:
        figures.append(window_figure(views.window))
    return figures_page(f"Strategies over time: {views.of}", figures)
