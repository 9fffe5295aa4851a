"""``dpsim calibrate``: a few measured steps in, a profile by which every other run is predicted."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, show, show_json, write_whole
from dpsim.commands.options import File, Json, Sets

if TYPE_CHECKING:
    from rich.table import Table

    from dpsim.studies.calibrate import Calibration, Fitted


def calibrate(
    file: File,
    steps: Annotated[
        Path | None,
        typer.Argument(
            help="Measured steps (CSV): columns are fields of the scenario (cluster.nodes, "
            "cluster.gpus_per_node, workload.batch_per_gpu, any other), or placement (4+3+1), and "
            "step_time_ms.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the calibration profile to this file."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show the four runs that tell most, and measure nothing.")
    ] = False,
    set_: Sets = None,
    as_json: Json = False,
) -> None:
    """Fit how a cluster's steps differ from its description, from a few measured ones.

    Time a sample, host time, and what collectives really take inside and between nodes: the engine
    predicts each measured run, with priors for what no run tells. Then predict any other run with
    calibration: PROFILE.json.

    Example: dpsim calibrate mine.yaml --plan
    Example: dpsim calibrate mine.yaml steps.csv -o profile.json
    """
    from dpsim.scenario import load_scenario
    from dpsim.studies.calibrate import calibrate as fitted
    from dpsim.studies.calibrate import measured_runs
    from dpsim.studies.calibrate import plan as planned

    target = load_scenario(file, set_ or ())
    if plan:
        _show_plan([each.to_json() for each in planned(target)], as_json=as_json)
        return
    if steps is None:
        raise DpsimError("STEPS must be a CSV file of measured steps, or --plan be given")
    runs = measured_runs(file, steps, set_ or ())
    narrate(f"fitting to {len(runs)} measured steps ...")
    found = fitted(runs, target)
    if output is not None:
        write_whole(output, found.profile.to_json())
    if as_json:
        show_json(found.to_json(output))
    else:
        _show(found, output)


def _show(calibration: Calibration, output: Path | None) -> None:
    found = calibration.found
    show(_constants(found), "", _runs(found), "")
    show(*(f"warning     {each}" for each in calibration.warnings))
    if calibration.proposed:
        show("measure next, by what it leaves of the spread of the scenario's own step:")
        for each in (run.to_json() for run in calibration.proposed):
            show(f"  {_run_words(each)}: {each['spread_left']:.0%}")
    if output is not None:
        show(f"written to {output}: take it by calibration: {output.name} beside the scenario")


def _constants(found: Fitted) -> Table:
    from rich.table import Table

    table = Table(title="constants of this cluster", title_justify="left", show_edge=False)
    for head in ("constant", "value", "90 % of it", "prior", "told by the runs"):
        table.add_column(head)
    for index, prior in enumerate(found.free):
        low, high = found.interval(index)
        value = getattr(found.constants, prior.name)
        cells = [_number(each, prior.unit) for each in (value, low, high, prior.value)]
        told = "yes" if found.is_identified(index) else "hardly"
        table.add_row(prior.name, cells[0], f"{cells[1]} to {cells[2]}", cells[3], told)
    return table


def _runs(found: Fitted) -> Table:
    from rich.table import Table

    from dpsim.base.units import TIME, human

    table = Table(title="runs", title_justify="left", show_edge=False)
    for head in ("nodes", "GPUs a node", "batch", "measured", "predicted", "error", "left out"):
        table.add_column(head, justify="right")
    for run, seconds, apart in zip(found.runs, found.seconds, found.left_out, strict=True):
        known = run.known
        table.add_row(
            *map(str, (known.nodes, known.gpus_per_node, known.batch)),
            human(run.step_time, TIME),
            human(float(seconds), TIME),
            f"{seconds / run.step_time - 1:+.1%}",
            "alone" if isnan(apart) else f"{-apart:+.1%}",
        )
    return table


def _show_plan(proposed: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        show_json({"schema_version": 1, "kind": "calibrate-plan", "measure_next": proposed})
        return
    show("four runs that tell most; a few hundred steps each, the first dozen left out:")
    show(*(f"  {_run_words(each)}" for each in proposed))
    show("then write one row for each into a table:")
    show("  cluster.nodes,cluster.gpus_per_node,workload.batch_per_gpu,step_time_ms")


def _run_words(run: dict[str, Any]) -> str:
    return (
        f"{run['cluster.nodes']} node(s) x {run['cluster.gpus_per_node']} GPU(s), batch "
        f"{run['workload.batch_per_gpu']} per GPU"
    )


def _number(value: float, unit: str) -> str:
    from dpsim.base.units import TIME, human

    return human(value, TIME, 3) if unit == "s" else f"{value:.3g}"
