"""``dpsim validate calibrate``: a profile of how messages travel, fitted on measured collectives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpsim.commands.progress import bars
from dpsim.errors import DpsimError
from dpsim.terminal import narrate, show, show_json, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from dpsim.calibration import CalibrationProfile
    from validate.calibrate import Choice
    from validate.run_record import RunRecord

_ROUNDS = 5  # of fitting, at most


def calibrate(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Files of measured collectives: records, or microbenchmarks' run files.", show_default=False),
    ] = None,
    testbed: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|hosts=N,rate=R",
            help="Where microbenchmarks ran; without RUNS, what to measure, for some minutes. Needs root on Linux then.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the profile to this file.", show_default=False)
    ] = None,
    records: Annotated[
        Path | None, typer.Option(help="Write the runs with what the profile predicts to this file.", show_default=False)
    ] = None,
    name: Annotated[str, typer.Option(help="What predictions call the profile.")] = "testbed",
    every: Annotated[int, typer.Option(min=1, help="Fit on one of so many runs, and hold the others out.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Fit latency, overheads, links' efficiency, reduction cost and more on measured collectives.

    A scenario uses the profile by calibration: profile.json. Residuals are those of runs that were not fitted on.

    Example: dpsim validate calibrate --testbed "hosts=4,rate=100 Mbit/s" -o profile.json
    Example: dpsim validate calibrate validate/recorded/collectives.json.gz -o profile.json
    """
    from validate.calibrate import choices, profile_of

    with bars() as progress:
        measured, sources, provenance = _measured(runs or [], testbed, every, progress)
        profile, told = profile_of(
            measured,
            name,
            every=every,
            sources=sources,
            provenance=provenance,
            done=lambda count: progress("fitting", count, _ROUNDS),
        )
    if output is not None:
        write_whole(output, profile.to_json())
        narrate(f"wrote {output}")
    if records is not None:
        _write_records(records, told, provenance)
    chosen = choices(record for record in told if not record.fitted)
    if as_json:
        show_json({"schema_version": 1, "profile": profile.model_dump(mode="json"), "choices": _choices(chosen)})
    else:
        show(_parameters(profile), "", _residuals(profile), "", _ranking(chosen))


def _measured(
    runs: list[Path], testbed: str | None, every: int, progress: Callable[[str, int, int], None]
) -> tuple[list[RunRecord], dict[str, int], dict[str, str]]:
    """The records, how many each source gave, and what the machine is."""
    from validate.calibrate import own_plan, parse_testbed, read_records

    config = None if testbed is None else parse_testbed(testbed)
    if runs:
        found = {str(path): read_records(path, config) for path in runs}
        return [record for some in found.values() for record in some], {path: len(some) for path, some in found.items()}, {}
    if config is None:
        raise DpsimError("calibrate must have files of runs, or --testbed to measure on, but got neither")
    from dpsim.workload.torch_trace import import_torch

    import_torch()
    from validate.calibrate.measure import measure
    from validate.calibrate.profile import LEAST
    from validate.microbench.machine import provenance

    plan = own_plan(config)
    if len(plan) < LEAST * every:
        raise DpsimError(
            f"--testbed must be fast enough to measure {LEAST * every} cases in a bearable time, but is for {len(plan)}"
        )
    measured = list(measure(plan, lambda count: progress("measuring", count, len(plan))))
    return measured, {"measured now": len(measured)}, provenance()


def _write_records(path: Path, told: list[RunRecord], provenance: dict[str, str]) -> None:
    from validate.run_record import RunRecords, save_run_records

    save_run_records(path, RunRecords(provenance=provenance, runs=tuple(told)))
    narrate(f"wrote {path}")


def _choices(chosen: list[Choice]) -> dict[str, Any]:
    from validate.calibrate import within

    return {
        "settings": len(chosen),
        "within_5_percent": within(chosen) if chosen else None,
        "worst": [
            {"setting": one.setting, "predicted": one.predicted, "measured": one.measured, "regret": one.regret}
            for one in sorted(chosen, key=lambda one: -one.regret)[:5]
        ],
    }


def _parameters(profile: CalibrationProfile) -> Table:
    from rich.table import Table

    table = Table(title=f"{profile.name}: {profile.formula}", title_justify="left", show_edge=False)
    for heading in ("parameter", "value", "unit", "standard error", "95 % from", "to"):
        table.add_column(heading, justify="left" if heading in ("parameter", "unit") else "right")
    for name, one in profile.parameters.items():
        errors = ("-" if value is None else f"{value:.3g}" for value in (one.standard_error, one.low, one.high))
        table.add_row(name, f"{one.value:.4g}", one.unit, *errors)
    return table


def _residuals(profile: CalibrationProfile) -> Table:
    from rich.table import Table

    table = Table(title="absolute percentage errors", title_justify="left", show_edge=False)
    table.add_column("runs")
    for heading in ("n", "median", "mean", "95th percentile", "worst"):
        table.add_column(heading, justify="right")
    for part, errors in {
        "held out" if profile.residuals.counted_on == "held-out rows" else "all": profile.residuals,
        **profile.residuals_by,
    }.items():
        values = (errors.median_ape, errors.mean_ape, errors.p95_ape, errors.worst_ape)
        table.add_row(part, str(errors.n), *(f"{value:.1%}" for value in values))
    return table


def _ranking(chosen: list[Choice]) -> str:
    from validate.calibrate import within

    if not chosen:
        return "no setting has several algorithms that were held out"
    return (
        f"in {within(chosen):.1%} of {len(chosen)} settings the algorithm predicted to be fastest is the fastest, "
        "or within 5 % of it"
    )
