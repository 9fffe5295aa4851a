"""``dpsim validate reference``: predictions beside published measurements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.base.terminal import narrate, show, show_json
from dpsim.commands.options import Json
from dpsim.commands.progress import bars

if TYPE_CHECKING:
    from rich.table import Table

    from validate.published import Reference, StepKind, StepReference


Kind = Annotated[
    str,
    typer.Argument(
        help="The columns that the file has: nccl-tests, nccl-single-node, single-gpu, "
        "adaptdl, vtrain, vtrain-allreduce, "
        "scaling, overlap (those of scaling), imagenet or llm."
    ),
]
File = Annotated[Path, typer.Argument(help="A CSV file with those columns.", show_default=False)]
Regime = Annotated[
    str,
    typer.Option(
        help="specification: from the description alone; calibrated: every fourth size is "
        "measured, of llm the row of fewest GPUs of each case."
    ),
]
FitOn = Annotated[
    list[Path] | None,
    typer.Option(help="Fit constants on this file instead of those that are shipped. Repeatable."),
]
LeaveOut = Annotated[
    str,
    typer.Option(
        help="machine: no machine is predicted by constants that saw it; none: as they are."
    ),
]
Tolerance = Annotated[
    float | None,
    typer.Option(min=0, help="Exit with 3 where the mean error over rows is above this fraction."),
]


def reference(
    kind: Kind,
    file: File,
    regime: Regime = "specification",
    fit_on: FitOn = None,
    leave_out: LeaveOut = "machine",
    tolerance: Tolerance = None,
    as_json: Json = False,
) -> None:
    """Predict every row of a table of published measurements and say how far off that is.

    Rows of quality other than ok, and rows that a calibration was fitted on, are predicted but do
    not count. For tables of step times, rows that the constants saw are predicted by constants
    fitted without their group.

    Example: dpsim validate reference nccl-tests nccl_tests.csv --regime calibrated --json
    """
    from validate.published import KINDS, STEP_KINDS, compare, compare_steps

    _known("kind of table", kind, (*KINDS, *STEP_KINDS))
    _known("regime", regime, ("specification", "calibrated"))
    _known("choice of what to leave out", leave_out, ("machine", "none"))

    steps = kind in STEP_KINDS
    if steps and leave_out != "machine":
        raise DpsimError(f"--leave-out must be left out for {kind}, but got {leave_out}")
    result: Reference | StepReference
    with bars() as progress:
        if steps:
            result = compare_steps(
                file,
                cast("StepKind", kind),
                regime=cast("Literal['specification', 'calibrated']", regime),
                fit_on=fit_on or (),
                progress=progress,
            )
        else:
            result = compare(
                file,
                cast("Any", kind),
                cast("Literal['specification', 'calibrated']", regime),
                fit_on=fit_on or (),
                leave_out=cast("Literal['machine', 'none']", leave_out),
                progress=progress,
            )

    if as_json:
        show_json(result.to_json())
    else:
        _show(result)
    _judge(result, tolerance)


def _known(what: str, name: str, names: tuple[str, ...]) -> None:
    if name not in names:
        raise UnknownNameError(what, name, names)


def _judge(result: Reference | StepReference, tolerance: float | None) -> None:
    """Exit with 3 where the error is above ``tolerance``."""
    if tolerance is None:
        return
    if result.overall is None:
        raise DpsimError(
            "--tolerance must have rows of quality ok to judge, but the table has none"
        )
    error = result.overall["mean_ape"]
    if error > tolerance:
        narrate(f"dpsim: the mean error is {error:.1%}, above the tolerance of {tolerance:.1%}")
        raise typer.Exit(3)


def _show(result: Reference | StepReference) -> None:
    from validate.published import StepReference

    if result.kind == "imagenet":
        show(_records_table(result), "")
    show(_step_table(result) if isinstance(result, StepReference) else _table(result), "")
    words = ", ".join(
        f"{count} rows by constants {words}" for words, count in result.constants.items()
    )
    show(f"predicted: {words}")
    if result.fitted:
        show(f"fitted on, and not counted: {len(result.fitted)} rows")
    if isinstance(result, StepReference):
        _show_apart(result.apart_by_reason)
        _show_left_out(result)
    elif result.apart:
        _show_apart({"quality": result.to_json()["overall_apart"]})
    elif result.notes:
        show(
            "",
            "not understood in the table's texts:",
            *(f"  {note} ({machine[:60]})" for note, machine in result.notes),
        )


def _show_apart(errors: Mapping[str, Mapping[str, float | int]]) -> None:
    """How many rows do not count, by reason, and how far off they are."""
    for reason, of_rows in errors.items():
        off = f"{of_rows['mean_ape']:.1%}"
        show(f"apart: {of_rows['n']} rows, off by {off} on average: {reason}")


def _show_left_out(result: StepReference) -> None:
    """What was kept from the fits, what could not be predicted, and what had to be guessed."""
    if result.left_out:
        show(f"left out: {result.left_out}")
    reasons: dict[str, int] = {}
    for _, reason in result.not_predicted:
        reasons[reason] = reasons.get(reason, 0) + 1
    show(*(f"not predicted: {count} rows: {reason}" for reason, count in sorted(reasons.items())))
    show(*(f"note: {note}" for note in result.notes))


def _records_table(result: Reference | StepReference) -> Table:
    """Every record, published beside predicted."""
    from rich.table import Table

    table = Table(title="time to train", title_justify="left", show_edge=False)
    for heading in ("record", "hardware", "published", "predicted", "error"):
        table.add_column(heading, justify="left" if heading in ("record", "hardware") else "right")
    table.add_column("assumed", overflow="fold", max_width=70)
    for row in (one.to_json() for one in result.counted):
        error = f"{row['predicted_min'] / row['measured_min'] - 1:+.0%}"
        hardware = f"{row['accelerators']} x {row['hardware']}"[:32]
        times = (f"{row[name]:.4g} min" for name in ("measured_min", "predicted_min"))
        table.add_row(row["record_id"], hardware, *times, error, "; ".join(row["assumed"]))
    return table


def _step_table(result: StepReference) -> Table:
    """Errors of step times by group; of scaling also in points of efficiency."""
    from rich.table import Table

    table = Table(
        title=f"{result.kind}: absolute percentage errors", title_justify="left", show_edge=False
    )
    table.add_column("rows of")
    points = ("median_points", "mean_points") if result.kind == "scaling" else ()
    for heading in (
        "n",
        "median",
        "mean",
        "95th percentile",
        "worst",
        *(f"{name.split('_')[0]}, points" for name in points),
    ):
        table.add_column(heading, justify="right")
    overall = {} if result.overall is None else {"all": result.overall}
    for name, group in {**overall, **result.groups}.items():
        errors = [f"{group[key]:.1%}" for key in ("median_ape", "mean_ape", "p95_ape", "worst_ape")]
        table.add_row(
            name[:64], str(group["n"]), *errors, *(f"{100 * group[key]:.1f}" for key in points)
        )
    return table


def _table(result: Reference) -> Table:
    from rich.table import Table

    table = Table(
        title=f"{result.kind}, {result.regime}: absolute percentage errors",
        title_justify="left",
        show_edge=False,
    )
    table.add_column("rows of")
    for heading in (
        "n",
        "median",
        "mean",
        "95th percentile",
        "worst",
        "machines",
        "mean over machines",
    ):
        table.add_column(heading, justify="right")
    overall = {} if result.overall is None else {"all": result.overall}
    for name, group in {**overall, **result.groups}.items():
        if name.startswith("case "):
            continue
        errors = [f"{group[key]:.1%}" for key in ("median_ape", "mean_ape", "p95_ape", "worst_ape")]
        table.add_row(
            name[:64],
            str(group["n"]),
            *errors,
            str(group["machines"]),
            f"{group['mean_over_machines']:.1%}",
        )
    return table
