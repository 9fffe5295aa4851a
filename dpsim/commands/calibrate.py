"""``dpsim calibrate``: fit a profile for predicting other runs to a few measured steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, save, show, show_answer, show_json, table, write_whole
from dpsim.commands.options import File, Json, Plot, Sets, check_plot, draw

if TYPE_CHECKING:
    from rich.table import Table

    from dpsim.scenario import Scenario
    from dpsim.studies.calibrate import Calibration, Fitted, MeasuredRun
    from validate.records import RunRecord


_TABLE = "steps.csv"  # of a folder
_RECORDS = (".json", ".json.gz")


def calibrate(
    file: File,
    steps: Annotated[
        Path | None,
        typer.Argument(
            help=(
                "Measured steps: a table of runs (CSV), a folder with steps.csv beside its "
                "logs and traces, or records of dpsim validate run (JSON, or a folder of "
                "them). For one run: a table with the time of each step, or a folder with a "
                "PyTorch trace of each rank."
            ),
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the calibration profile to this file."),
    ] = None,
    disturbance: Annotated[
        Path | None,
        typer.Option(help="Write the disturbance fitted to single steps to this file (YAML)."),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="Show the four most informative runs to measure; STEPS is not needed."
        ),
    ] = False,
    set_: Sets = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Fit how a cluster's steps differ from its description, from a few measured ones.

    Fits the time per sample, host time, and the time of collectives inside and between nodes; a
    constant that the runs do not determine stays at its prior. Then predict any other run with
    calibration: PROFILE.json.

    A row of the table is a run. The columns are fields of the scenario (cluster.nodes,
    cluster.gpus_per_node, workload.batch_per_gpu, any other), or placement (4+3+1) for unequal
    nodes, and step_time_ms. Instead of step_time_ms a column log names a file beside the table:
    output of torchtitan, DeepSpeed, Megatron-LM, Composer (with SpeedMonitor), or of a progress bar
    of Lightning, accelerate or transformers, or metrics.csv of Lightning's CSVLogger with
    ThroughputMonitor. The median counts, without the first ten steps. exposed_ms is exposed
    communication, if you measured it. A column trace names a PyTorch profiler's trace, or a folder
    with one per rank: it gives exposed communication, and the step time if no other column does.
    Rows with held_out=yes are predicted and not fitted. If the scenario's calibration names a
    profile of dpsim validate node, the new profile includes it.

    Logs of every step also give jitter; a CSV log with the columns step_ms, rank and node gives
    slow ranks, delays and stalls. The profile has the jitter of whole steps. --disturbance writes
    all of them as a block for a scenario without this profile.

    Example: dpsim calibrate mine.yaml --plan
    Example: dpsim calibrate mine.yaml steps.csv -o profile.json
    Example: dpsim calibrate mine.yaml logs/ -o profile.json
    Example: dpsim calibrate mine.yaml traces/ --disturbance disturbance.yaml
    """
    from dpsim.scenario import as_yaml, load_scenario
    from dpsim.studies.calibrate import calibrate as fit_runs
    from dpsim.studies.calibrate import plan as propose_runs

    check_plot(plot)
    target = load_scenario(file, set_ or ())
    if plan:
        _show_plan([each.to_json() for each in propose_runs(target)], as_json=as_json)
        return
    if steps is None:
        raise DpsimError("STEPS must be given (measured steps: CSV, folder or JSON), or --plan")
    runs = _runs_of(file, steps, set_ or ())
    narrate(f"fitting to {sum(not run.held_out for run in runs)} measured runs ...")
    calibration = fit_runs(runs, target)
    if output is not None:
        write_whole(output, calibration.profile.to_json())
    if disturbance is not None:
        block, _ = calibration.disturbance
        if block is None:
            raise DpsimError(f"{steps}: must have a run of 20 single steps for --disturbance")
        save(disturbance, as_yaml({"disturbance": block}, 79))
    draw(plot, calibration)
    if as_json:
        show_json(calibration.to_json(output))
    else:
        _show(calibration, output)


def _show(calibration: Calibration, output: Path | None) -> None:
    from dpsim.report.text.calibration import runs_table

    show(_constants(calibration.found), "", runs_table("runs", calibration.rows), "")
    if calibration.held_out:
        show(runs_table("runs held out", calibration.held_out), "")
        off = calibration.held_out_errors
        middle, worst = off["median_ape"], off["worst_ape"]
        show(f"held out    {middle:.1%} off in the median, {worst:.1%} at worst")
    if calibration.jitter is not None:
        jitter = ", ".join(f"{name} {value}" for name, value in calibration.jitter.items())
        show(f"jitter      {jitter}")
    show(*_step_lines(calibration))
    show(*(f"warning     {each}" for each in calibration.warnings))
    if calibration.proposed:
        show("measure next (and the remaining share of the spread of the scenario's step):")
        for each in (run.to_json() for run in calibration.proposed):
            show(f"  {_run_text(each)}: {each['spread_left']:.0%}")
    if output is not None:
        show(f"written to {output}: use it by calibration: {output.name}, beside the scenario")


def _step_lines(calibration: Calibration) -> Iterator[str]:
    """Yield slow ranks, what they cost, and how well the fit reproduces single steps."""
    block, quantiles = calibration.disturbance
    for entry in (block or {}).get("slow", []):
        ranks = ", ".join(map(str, entry["workers"]))
        yield f"slow        rank {ranks} takes {entry['factor']:.2f} times the median rank's time"
    for row in calibration.rows:
        if row["slow_down"] is not None:
            setup = f"{row['nodes']} x {row['gpus_per_node']} GPUs, batch {row['batch']}"
            yield f"stragglers  make a step {row['slow_down']:.2f} times as long on {setup}"
    for each in quantiles:
        yield (
            f"steps       {each['quantile']:.0%} take at most {each['measured']:.3f} times the "
            f"mean, {each['drawn']:.3f} as drawn from the fit"
        )


def _constants(fitted: Fitted) -> Table:
    headings = ("constant", "value", "90% interval", "prior", "determined")
    rows = []
    for index, prior in enumerate(fitted.free):
        low, high = fitted.interval(index)
        value = getattr(fitted.constants, prior.name)
        cells = [_number(each, prior.unit) for each in (value, low, high, prior.value)]
        determined = "yes" if fitted.is_identified(index) else "weakly"
        rows.append((prior.name, cells[0], f"{cells[1]} to {cells[2]}", cells[3], determined))
    return table("constants of this cluster", headings, rows, left=headings)


def _show_plan(proposed: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        show_answer("calibrate-plan", measure_next=proposed)
        return
    show("the four most informative runs; a few hundred steps each, without the first dozen:")
    show(*(f"  {_run_text(each)}" for each in proposed))
    show("then write one row for each into a table:")
    show("  cluster.nodes,cluster.gpus_per_node,workload.batch_per_gpu,step_time_ms")


def _run_text(run: dict[str, Any]) -> str:
    from dpsim.base.units import plural

    nodes = plural(run["cluster.nodes"], "node")
    gpus = plural(run["cluster.gpus_per_node"], "GPU")
    return f"{nodes} x {gpus}, batch {run['workload.batch_per_gpu']} per GPU"


def _number(value: float, unit: str) -> str:
    from dpsim.base.units import TIME, human

    return human(value, TIME, 3) if unit == "s" else f"{value:.3g}"


def _runs_of(file: Path, steps: Path, overrides: Sequence[str]) -> list[MeasuredRun]:
    """Return the runs in ``steps``: of the scenario in ``file``, or of those in records.

    A folder of traces is a run of the scenario itself. Raises DpsimError.
    """
    from dpsim.imports.kineto_ranks import read_traced_steps
    from dpsim.imports.step_logs import read_step_log
    from dpsim.scenario import load_scenario
    from dpsim.studies.calibrate import LOG, TRACE, measured_runs, own_run

    readers = {
        LOG: lambda path, run: read_step_log(path),
        TRACE: lambda path, run: read_traced_steps(path, _gpus_per_node(run)),
    }
    table = steps / _TABLE if steps.is_dir() else steps
    if steps.is_dir() and not table.exists() and not any(steps.rglob("run*.json*")):
        if not any(steps.glob("*.json*")):
            raise DpsimError(
                f"{steps}: must have {_TABLE}, whose column log names its logs, traces of each "
                "rank, or records of dpsim validate run (run*.json), but has none"
            )
        return [own_run(TRACE, steps, load_scenario(file, overrides), readers)]
    if not table.exists() or table.name.endswith(_RECORDS):
        return _read_records(steps)
    return measured_runs(file, table, overrides, readers)


def _gpus_per_node(run: Scenario) -> int | None:
    """Return the ranks of each node of a run; None if nodes differ."""
    counts = {part.gpus for part in run.cluster.parts}
    return counts.pop() if len(counts) == 1 else None


def _read_records(path: Path) -> list[MeasuredRun]:
    """Return the steps recorded by `dpsim validate run`, without partial runs."""
    from validate.records import records_of

    steps = [record for record in records_of([path]) if record.kind == "step"]
    whole = [record for record in steps if not record.partial]
    if not whole:
        raise DpsimError(
            f"{path}: must have records of steps (dpsim validate run -o FILE) whose run did not "
            f"fail, but has {len(steps)} in all"
        )
    return [_recorded_run(record, path) for record in whole]


def _recorded_run(record: RunRecord, path: Path) -> MeasuredRun:
    from dpsim.scenario import load_scenario
    from dpsim.studies.calibrate import MeasuredRun

    case = record.case
    named = case.get("scenario")
    if not isinstance(named, str):
        raise DpsimError(f"{path}: {record.name}: must name its scenario, but does not")
    try:
        scenario = load_scenario(named, case.get("set", ()))
    except DpsimError as error:
        raise DpsimError(f"{path}: {record.name}: {error}") from None
    exposed = case.get("measured", {}).get("parts_s", {}).get("exposed_comm")
    return MeasuredRun(scenario, record.median_s, exposed)
