"""``dpsim goodput``: simulate weeks of training with faults, checkpoints and restarts."""

from __future__ import annotations

from typing import Annotated

import typer

from dpsim.base.terminal import show, show_answer
from dpsim.commands.options import File, Json, Sets


def goodput(
    file: File,
    days: Annotated[
        float, typer.Option(min=0.01, max=3650, help="Days to simulate, downtime included.")
    ] = 30.0,
    runs: Annotated[
        int,
        typer.Option(
            min=2,
            max=10_000,
            help="Number of simulations, each with different random faults.",
        ),
    ] = 100,
    set_: Sets = None,
    as_json: Json = False,
) -> None:
    """Simulate weeks of faults, checkpoints, restarts and repairs.

    Shows the useful share with an interval, the best time between checkpoints, and
    interruptions by cause.

    Example: dpsim goodput scenarios/disturbed.yaml --days 54
    Example: dpsim goodput scenarios/disturbed.yaml --set disturbance.crashes.faults=llama3
    Example: dpsim goodput scenarios/llm/llama3-8b-64xh100.yaml
        --set "disturbance.crashes.faults=[{name: spot, per: node, mtbf: 1 day}]"
    """
    from dpsim.disturbance import CrashesConfig
    from dpsim.engine import check_length, one_time_costs, prepare
    from dpsim.scenario import load_scenario
    from dpsim.studies.goodput import goodput_study

    scenario = load_scenario(file, set_ or ())
    # Without crashes in the file the defaults are used; the last lines state the assumptions.
    crashes = scenario.disturbance.crashes or CrashesConfig()
    # Checked before anything is built, which takes long for too many workers.
    check_length(scenario)
    job = prepare(scenario)
    study = goodput_study(
        crashes,
        job.workers,
        job.workers_of_nodes,
        days * 86_400,
        loading=one_time_costs(job).startup_s,
        seed=scenario.run.seed,
        runs=runs,
    )
    if as_json:
        show_answer("goodput", name=scenario.name, **study.to_json())
        return
    from dpsim.report.text.goodput import assumed_note, causes_table, goodput_notes, spares_note

    notes = [
        *goodput_notes(study),
        *spares_note(study, spares=crashes.spares, elastic=crashes.elastic),
        *assumed_note(crashes.assumed()),
    ]
    show(causes_table(scenario.name, study), "", *notes)
