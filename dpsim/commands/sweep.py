"""``dpsim sweep``: simulate many scenarios into one folder, resumable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, show, show_json
from dpsim.commands.options import (
    Epochs,
    Json,
    Plot,
    Samples,
    Sets,
    Tokens,
    check_plot,
    draw,
    with_amount,
)
from dpsim.commands.progress import bars

if TYPE_CHECKING:
    from dpsim.studies.sweep import Sweep

_SHOWN_FAILURES = 5
_SHOWN_POINTS = 12


Paths = Annotated[
    list[Path], typer.Argument(help="Scenario files, or folders of them.", show_default=False)
]
Output = Annotated[
    Path,
    typer.Option(
        "-o", "--output", metavar="FOLDER", help="Folder for the results.", show_default=False
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, max=1024, help="Number of processes; the number of cores if left out."),
]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Use this Dask scheduler instead of processes: tcp://host:8786."
    ),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Continue in an existing folder: compute only missing points."),
]


def sweep(
    paths: Paths,
    output: Output,
    workers: Workers = None,
    dask: Dask = None,
    resume: Resume = False,
    plot: Plot = None,
    tokens: Tokens = None,
    samples: Samples = None,
    epochs: Epochs = None,
    set_: Sets = None,
    as_json: Json = False,
) -> None:
    """Predict many scenarios: every point of files with a sweep block, every file of a folder.

    The exit code is 3 if some failed.

    If it is killed, only the scenarios in progress are lost; --resume computes the rest.

    Example: dpsim sweep scenarios/sweep.yaml -o results/
    Example: dpsim sweep scenarios/ -o results/ --workers 8 --resume
    Example: dpsim sweep scenarios/sweep.yaml -o results/ --dask tcp://10.0.0.1:8786
    """
    from dpsim.studies.sweep import sweep as run

    check_plot(plot)
    if workers is not None and dask is not None:
        raise DpsimError(
            "--workers must not be given with --dask, whose cluster has its own workers, but "
            f"got {workers}"
        )
    # The number of scenarios is only known when the sweep starts.
    missing = 0

    def report_start(swept: Sweep) -> None:
        nonlocal missing
        missing = len(swept.missing)
        _narrate(swept)

    with bars() as report:
        swept = run(
            paths,
            output,
            workers=workers,
            dask=dask,
            resume=resume,
            overrides=with_amount(set_, tokens, samples, epochs),
            started=report_start,
            progress=lambda done: report("simulating", done, missing),
        )
    draw(plot, swept.folder)
    if as_json:
        show_json(swept.to_json())
    else:
        show(*_summary_lines(swept))
        _show_best(swept)
        typer.echo(
            f"query it: dpsim results {swept.folder} --sql 'select * from results order by "
            "step_time_s limit 10'"
        )
    # Code 3: some points failed (not 0), but the other points are usable (not 1).
    if swept.failed:
        raise typer.Exit(3)


def _narrate(swept: Sweep) -> None:
    for note in swept.plan.notes:
        narrate(f"note: {note}")
    if swept.damage:
        narrate(f"note: {swept.damage}")
    reused = [
        swept.rows[point.key]
        for point in swept.plan.points
        if point.key and point.key in swept.rows
    ]
    if reused:
        failed = sum(row["error"] is not None for row in reused)
        computed = f"{len(reused):,} of {swept.points:,} points are computed ({failed:,} failed)"
        narrate(f"resuming: {computed}, {len(swept.missing):,} scenarios to compute")


def _summary_lines(swept: Sweep) -> list[str]:
    """Return the lines printed at the end: counts, and the failures by the rule they break."""
    from dpsim.base.units import plural

    counted = swept.to_json()
    counts = (
        f"{plural(counted['computed'], 'scenario')} computed now, "
        f"{plural(counted['skipped'], 'point')} reused, {counted['failed']:,} failed"
    )
    lines = [f"{swept.folder}: {plural(counted['points'], 'point')}: {counts}"]
    groups = swept.failures_by_rule
    for rule, points in list(groups.items())[:_SHOWN_FAILURES]:
        first = points[0]
        many = f"{len(points):,} points, such as {first['point']}: {rule}"
        lines.append(
            f"  {many}" if len(points) > 1 else f"  point {first['point']}: {first['error']}"
        )
    if len(groups) < counted["failed"] or len(groups) > _SHOWN_FAILURES:
        lines.append(
            "  ... all of them: --sql 'select point, error from results where error is not null'"
        )
    return lines


def _show_best(swept: Sweep) -> None:
    """Show the best points, with their varied fields and results."""
    from dpsim.report.text.sweep import sweep_notes, sweep_table

    # The second key is the point, so that equally fast points always have the same order.
    ranked = "order by throughput_samples_per_s desc, point"
    answer = swept.query(f"select * from results where error is null {ranked}")
    if not answer.rows:
        return
    show("", sweep_table(answer, _SHOWN_POINTS))
    more = len(answer.rows) - _SHOWN_POINTS
    slower = [f"... and {more:,} slower ones: dpsim results {swept.folder}"] if more > 0 else []
    show(*slower, *sweep_notes(answer, _SHOWN_POINTS), "")
