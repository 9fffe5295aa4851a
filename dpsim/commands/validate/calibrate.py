"""``dpsim validate calibrate``: fit a profile of messages to measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, save, show, show_answer, table
from dpsim.commands.options import Json
from dpsim.commands.progress import bars

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from dpsim.hardware import CalibrationProfile
    from validate.calibrate.messages import Messages
    from validate.compare.ranking import Choice
    from validate.records import RunRecord


Runs = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Files of measurements: records of collectives.",
        show_default=False,
    ),
]
Testbed = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|hosts=N,rate=R",
        help=(
            "Testbed to measure on instead of reading RUNS; takes minutes and needs root on Linux."
        ),
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Write the profile to this file.", show_default=False),
]
Records = Annotated[
    Path | None,
    typer.Option(
        help="Write the runs with the profile's predictions to this file.", show_default=False
    ),
]
Every = Annotated[int, typer.Option(min=1, help="Fit on every n-th run and hold out the others.")]


def calibrate(
    runs: Runs = None,
    testbed: Testbed = None,
    output: Output = None,
    records: Records = None,
    every: Every = 3,
    as_json: Json = False,
) -> None:
    """Fit the constants of a network on measured collectives and messages.

    Collectives give latency, overheads, links' efficiency, reduction cost and more; messages, which
    are measured on a testbed, give duplex factors. A scenario uses the profile by calibration:
    profile.json. Residuals of collectives are from held-out runs.

    Example: dpsim validate calibrate --testbed "hosts=4,rate=100 Mbit/s" -o profile.json
    Example: dpsim validate calibrate validate/recorded/collectives.json.gz -o profile.json
    """
    from validate.calibrate.fit import MOST_PREDICTIONS
    from validate.calibrate.profile import fit_collectives, with_messages
    from validate.compare.ranking import choices

    with bars() as progress:
        measured = _collect_measurements(runs or [], testbed, every, progress)
        profile, predicted = fit_collectives(
            measured.records,
            "testbed",
            every=every,
            sources=measured.counts,
            provenance=measured.provenance,
            done=lambda count: progress("fitting", count, MOST_PREDICTIONS),
        )
        if measured.messages:
            profile = with_messages(profile, measured.messages)
    if output is not None:
        save(output, profile.to_json())
    if records is not None:
        _write_records(records, predicted, measured.provenance)
    # Rank only runs that were not fitted; the fit has seen the others.
    chosen = choices(record for record in predicted if not record.fitted)
    if as_json:
        show_answer(
            "validate-calibrate", profile=profile.model_dump(mode="json"), choices=_choices(chosen)
        )
    else:
        show(_parameters(profile), "", _residuals(profile), "", _ranking(chosen))


class _Measurements(NamedTuple):
    """Collectives and messages, the number of cases by source, and where they were measured."""

    records: list[RunRecord]
    messages: list[Messages]
    counts: dict[str, int]
    provenance: dict[str, str]


def _collect_measurements(
    runs: list[Path],
    testbed: str | None,
    every: int,
    progress: Callable[[str, int, int | None], None],
) -> _Measurements:
    """Read the measurements of ``runs``, or measure on ``testbed``. Raises DpsimError."""
    if runs and testbed is not None:
        raise DpsimError("--testbed must be left out with RUNS, whose records say where they ran")
    if runs:
        from validate.records import load_run_records

        runs_by_path = {str(path): load_run_records(path).runs for path in runs}
        counts = {path: len(each) for path, each in runs_by_path.items()}
        records = [each for runs_of_path in runs_by_path.values() for each in runs_of_path]
        return _Measurements(records, [], counts, {})
    if testbed is None:
        raise DpsimError(
            "calibrate must have files of runs, or --testbed to measure on, but got neither"
        )
    from validate.calibrate.plan import own_plan
    from validate.ranks.testbed import parse_testbed

    config = parse_testbed(testbed)
    # Torch is only needed to measure: profiles are fitted without it.
    from dpsim.workload import import_torch

    import_torch("validate calibrate, to measure,")
    from validate.calibrate.measurement import measure, measure_messages
    from validate.calibrate.profile import LEAST_CASES
    from validate.microbench.machine import provenance

    plan = own_plan(config)
    # One case in ``every`` is fitted, and the other cases give the error of the fit.
    if len(plan) < LEAST_CASES * every:
        raise DpsimError(
            f"--testbed must be fast enough to measure {LEAST_CASES * every} cases in minutes, "
            f"but is for {len(plan)}"
        )
    records = list(measure(plan, lambda count: progress("measuring", count, len(plan))))
    messages = measure_messages(config, progress)
    counts = {"measured now": len(records) + len(messages)}
    return _Measurements(records, messages, counts, provenance())


def _write_records(path: Path, predicted: list[RunRecord], provenance: dict[str, str]) -> None:
    from validate.records import RunRecords, save_run_records

    save_run_records(path, RunRecords(provenance=provenance, runs=tuple(predicted)))
    narrate(f"wrote {path}")


def _choices(chosen: list[Choice]) -> dict[str, Any]:
    from validate.compare.ranking import within

    return {
        "settings": len(chosen),
        "within_5_percent": within(chosen) if chosen else None,
        "worst": [
            {
                "setting": one.setting,
                "predicted": one.predicted,
                "measured": one.measured,
                "regret": one.regret,
            }
            for one in sorted(chosen, key=lambda one: -one.regret)[:5]
        ],
    }


def _parameters(profile: CalibrationProfile) -> Table:
    rows = []
    for name, one in profile.parameters.items():
        errors = (
            "-" if value is None else f"{value:.3g}"
            for value in (one.standard_error, one.low, one.high)
        )
        rows.append((name, f"{one.value:.4g}", one.unit, *errors))
    headings = ("parameter", "value", "unit", "standard error", "95 % from", "to")
    title = f"{profile.name}: {profile.formula}"
    return table(title, headings, rows, left=("parameter", "unit"))


def _residuals(profile: CalibrationProfile) -> Table:
    from dpsim.report.text.errors import errors_table

    whole = "held out" if profile.residuals.counted_on == "held-out rows" else "all"
    groups = {whole: profile.residuals, **profile.residuals_by}
    errors = {name: vars(each) for name, each in groups.items()}
    return errors_table("absolute percentage errors", "runs", errors)


def _ranking(chosen: list[Choice]) -> str:
    from validate.compare.ranking import within

    if not chosen:
        return "no setting has several held-out algorithms"
    return (
        f"in {within(chosen):.1%} of {len(chosen)} settings the algorithm predicted to be fastest "
        "is the fastest, "
        "or within 5 % of it"
    )
