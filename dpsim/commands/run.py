"""``dpsim run``: one scenario."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.base.terminal import narrate, show, show_json, write_whole
from dpsim.commands.progress import progress

if TYPE_CHECKING:
    from dpsim.engine import Recording, Result, Run


Trace = Annotated[
    Path | None,
    typer.Option(
        help=(
            "Write the first steps as a trace to this file, for ui.perfetto.dev or "
            "chrome://tracing."
        )
    ),
]

Html = Annotated[
    Path | None,
    typer.Option(help="Write a report to this file: one page that needs nothing else."),
]

Chakra = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Write a step as Chakra execution traces, a file a rank, to this folder.",
    ),
]

EngineName = Annotated[
    str | None,
    typer.Option(
        metavar="ENGINE",
        help="What simulates it: auto, vector or events; as the file says if left out.",
    ),
]

Plot = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Draw it to this file: .html, or .png, .svg (extra plot); - for the terminal.",
    ),
]


def run(
    file: Annotated[Path, typer.Argument(help="A scenario file (YAML).", show_default=False)],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Replace a value: cluster.nodes=8. Repeatable."
        ),
    ] = None,
    trace: Trace = None,
    html: Html = None,
    chakra: Chakra = None,
    engine: EngineName = None,
    plot: Plot = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Predict one scenario: how long a step takes and where its time goes.

    Example: dpsim run scenarios/quickstart.yaml --set cluster.nodes=8
    Example: dpsim run scenarios/quickstart.yaml --trace trace.json --html report.html
    Example: dpsim run scenarios/quickstart.yaml --chakra traces
    Example: dpsim run scenarios/quickstart.yaml --engine events
    """
    from dpsim.engine import run_scenario
    from dpsim.scenario import load_scenario

    _check(plot)
    asked = [] if engine is None else [f"run.engine={engine}"]
    scenario = load_scenario(file, [*(set_ or ()), *asked])
    if scenario.sweep is not None:
        narrate(
            f"note: {file} is a batch, of which this is the base, nothing varied: dpsim sweep "
            f"{file} -o FOLDER computes its points"
        )

    with progress("simulating steps", scenario.run.steps + scenario.run.warmup) as done:
        simulated = run_scenario(scenario, _recording(trace, html), done)
    result = simulated.result
    # Notes go to stderr, so that what is piped from stdout is the table or the JSON alone.
    for note in result.notes:
        narrate(f"note: {note}")

    _write(simulated, trace, html, chakra)
    _draw(plot, result)
    if as_json:
        show_json(result.to_json())
        return
    from dpsim.report.text.tables import run_notes, run_table

    show(run_table(result), "", *run_notes(result))


def _check(plot: Path | None) -> None:
    # Loaded for those who ask for a picture: others want their answer in a second.
    if plot is not None:
        from dpsim.commands.options import check_plot

        check_plot(plot)


def _draw(plot: Path | None, result: Result) -> None:
    if plot is not None:
        from dpsim.commands.options import draw

        draw(plot, result.to_json())


def _recording(trace: Path | None, html: Path | None) -> Recording:
    """What the run must keep for the files that were asked for.

    A trace needs all workers, for what they send shows on the links.
    """
    from dpsim.engine import Recording

    if trace is not None:
        from dpsim.report.trace import STEPS

        return Recording(STEPS)
    return Recording(0 if html is None else 1)


def _write(run: Run, trace: Path | None, html: Path | None, chakra: Path | None) -> None:
    """The files that were asked for."""
    if chakra is not None:
        from dpsim.report.exports.chakra import write_chakra

        step = write_chakra(run, chakra)
        narrate(f"wrote step {step} of {run.job.workers:,} ranks to {chakra}")
    if trace is not None:
        from dpsim.report.trace import trace as events

        write_whole(trace, json.dumps(events(run), allow_nan=False))
        narrate(f"wrote {trace}")
    if html is not None:
        from dpsim.report.pages.page import run_page

        write_whole(html, run_page(run))
        narrate(f"wrote {html}")
