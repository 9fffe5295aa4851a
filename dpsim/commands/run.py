"""``dpsim run``: predict one scenario."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.base.terminal import narrate, save, show, show_json
from dpsim.commands.options import (
    Epochs,
    File,
    Json,
    Plot,
    Samples,
    Sets,
    Tokens,
    check_plot,
    draw,
    with_amount,
)
from dpsim.commands.progress import progress

if TYPE_CHECKING:
    from dpsim.engine import Recording, Run


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
    typer.Option(help="Write a report to this file, as a self-contained page."),
]


def run(
    file: File,
    tokens: Tokens = None,
    samples: Samples = None,
    epochs: Epochs = None,
    set_: Sets = None,
    trace: Trace = None,
    html: Html = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Predict one scenario: how long a step takes and where its time goes.

    Example: dpsim run scenarios/quickstart.yaml --set cluster.nodes=8
    Example: dpsim run scenarios/quickstart.yaml --trace trace.json --html report.html
    Example: dpsim run scenarios/quickstart.yaml --samples 115M
    """
    from dpsim.engine import run_scenario
    from dpsim.scenario import load_scenario

    recording = _recording(trace, html)
    check_plot(plot)
    scenario = load_scenario(file, with_amount(set_, tokens, samples, epochs))
    if scenario.sweep is not None:
        narrate(
            f"note: {file} is a sweep, and this is its base, with nothing varied: dpsim sweep "
            f"{file} -o FOLDER computes its points"
        )

    with progress("simulating steps", scenario.run.steps + scenario.run.warmup) as done:
        simulated = run_scenario(scenario, recording, done)
    result = simulated.result
    # Notes go to stderr, so that stdout only has the table or the JSON.
    for note in result.notes:
        narrate(f"note: {note}")

    if trace or html:
        _write(simulated, trace, html)
    draw(plot, result)
    if as_json:
        show_json(result.to_json())
        return
    from dpsim.report.text.tables import run_notes, run_table

    notes = run_notes(result)
    show(run_table(result), "", *notes)


def _recording(trace: Path | None, html: Path | None) -> Recording:
    """Return what the run must keep for the requested files.

    A trace needs all workers, since their communication shows on the links.
    """
    from dpsim.engine import Recording

    if trace is not None:
        from dpsim.report.trace import STEPS

        return Recording(STEPS)
    # The page shows one step; without it nothing need be kept.
    return Recording(0 if html is None else 1)


def _write(run: Run, trace: Path | None, html: Path | None) -> None:
    """Write the requested files."""
    if trace is not None:
        from dpsim.report.trace import trace as events

        save(trace, json.dumps(events(run), allow_nan=False))
    if html is not None:
        from dpsim.report.pages.page import run_page

        save(html, run_page(run))
