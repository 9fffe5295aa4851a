"""``dpsim validate reference``: compare predictions with published measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.base.terminal import narrate, show, show_json, table
from dpsim.commands.options import Json
from dpsim.commands.progress import bars

if TYPE_CHECKING:
    from rich.table import Table

    from validate.published import Reference, StepKind, StepReference


Kind = Annotated[
    str,
    typer.Argument(
        help=(
            "Format of the file: nccl-tests, nccl-single-node, single-gpu, adaptdl, vtrain, "
            "vtrain-allreduce, scaling, overlap (columns of scaling), imagenet, llm, mlperf "
            "or steps."
        )
    ),
]
File = Annotated[Path, typer.Argument(help="CSV file in that format.", show_default=False)]
Regime = Annotated[
    str,
    typer.Option(
        help=(
            "specification: predict from the description alone; calibrated: also from known rows: "
            "every fourth size of nccl tables; for llm, mlperf and steps, the row with the fewest "
            "GPUs of each case, submission or series; for adaptdl, vtrain and scaling, see --known."
        )
    ),
]
WriteScenarios = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help=(
            "Write the scenario that predicts each row of step times to ROW_ID.yaml in this folder."
        ),
        show_default=False,
    ),
]
KnownRows = Annotated[
    int,
    typer.Option(
        "--known",
        min=1,
        max=1000,
        help=(
            "Known rows per series of adaptdl, vtrain and scaling in the calibrated regime: "
            "first the rows that dpsim calibrate --plan proposes, then the farthest from the "
            "known ones."
        ),
    ),
]
Tolerance = Annotated[
    float | None,
    typer.Option(min=0, help="Exit with 3 if the mean error over rows is above this fraction."),
]


def reference(
    kind: Kind,
    file: File,
    regime: Regime = "specification",
    known: KnownRows = 4,
    write_scenarios: WriteScenarios = None,
    tolerance: Tolerance = None,
    as_json: Json = False,
) -> None:
    """Predict every row of a table of published measurements, and show the errors.

    Rows of a quality other than ok, and rows that a calibration was fitted on, are predicted but do
    not count. In tables of step times, a row that the shipped constants were fitted to is predicted
    by constants fitted without its group.

    Example: dpsim validate reference nccl-tests nccl_tests.csv --regime calibrated --json
    """
    from validate.published import KINDS, STEP_KINDS, compare, compare_steps

    _check_name("kind of table", kind, (*KINDS, *STEP_KINDS))
    _check_name("regime", regime, ("specification", "calibrated"))

    steps = kind in STEP_KINDS
    if write_scenarios is not None and not steps:
        raise DpsimError(f"--write-scenarios must be left out for {kind}: it has no steps")
    result: Reference | StepReference
    with bars() as progress:
        if steps:
            result = compare_steps(
                file,
                # `_check_name` has checked ``kind``, which type checkers cannot see.
                cast("StepKind", kind),
                regime=cast("Literal['specification', 'calibrated']", regime),
                write_scenarios=write_scenarios,
                known=known,
                progress=progress,
            )
        else:
            result = compare(
                file,
                cast("Any", kind),
                cast("Literal['specification', 'calibrated']", regime),
                progress=progress,
            )

    if as_json:
        show_json(result.to_json())
    else:
        _show(result)
    _judge(result, tolerance)


def _check_name(what: str, name: str, names: tuple[str, ...]) -> None:
    if name not in names:
        raise UnknownNameError(what, name, names)


def _judge(result: Reference | StepReference, tolerance: float | None) -> None:
    """Exit with 3 if the error is above ``tolerance``."""
    if tolerance is None:
        return
    if result.overall is None:
        raise DpsimError("--tolerance must have rows that count, but the table has none")
    error = result.overall["mean_ape"]
    if error > tolerance:
        narrate(f"dpsim: the mean error is {error:.1%}, above the tolerance of {tolerance:.1%}")
        raise typer.Exit(3)


def _show(result: Reference | StepReference) -> None:
    from validate.published import StepReference

    rows = [row.to_json() for row in result.counted]
    if rows and "record_id" in rows[0]:
        show(_records_table(rows), "")
    show(_errors_table(result), "")
    counts = ", ".join(
        f"{count} rows by constants {constants}" for constants, count in result.constants.items()
    )
    show(f"predicted: {counts}")
    if result.fitted:
        show(f"known, and not counted: {len(result.fitted)} rows")
    if isinstance(result, StepReference):
        _show_not_counted(result.apart_by_reason)
        _show_refused(result)
        return
    if result.apart:
        _show_not_counted({"quality": result.to_json()["overall_apart"]})
    if result.notes:
        show(
            "",
            "not understood in the table's texts:",
            *(f"  {note} ({machine[:60]})" for note, machine in result.notes),
        )


def _show_not_counted(errors: Mapping[str, Mapping[str, float | int]]) -> None:
    """Show how many rows do not count, by reason, and their errors."""
    for reason, of_rows in errors.items():
        off = f"{of_rows['mean_ape']:.1%}"
        show(f"not counted: {of_rows['n']} rows, off by {off} on average: {reason}")


def _show_refused(result: StepReference) -> None:
    """Show what could not be predicted, and the notes."""
    reasons: dict[str, int] = {}
    for _, reason in result.not_predicted:
        reasons[reason] = reasons.get(reason, 0) + 1
    show(*(f"not predicted: {count} rows: {reason}" for reason, count in sorted(reasons.items())))
    show(*(f"note: {note}" for note in result.notes))


def _records_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return every record, published and predicted."""
    cells = []
    for row in rows:
        error = f"{row['predicted_min'] / row['measured_min'] - 1:+.0%}"
        hardware = f"{row['accelerators']} x {row['hardware']}"[:32]
        times = (f"{row[name]:.4g} min" for name in ("measured_min", "predicted_min"))
        cells.append((row["record_id"], hardware, *times, error, "; ".join(row["assumed"])))
    text = ("record", "hardware", "assumed")
    headings = (*text[:2], "published", "predicted", "error", *text[2:])
    made = table("time to train", headings, cells, left=text)
    made.columns[-1].max_width = 70
    return made


def _errors_table(result: Reference | StepReference) -> Table:
    from dpsim.report.text.errors import errors_table

    groups = {} if result.overall is None else {"all": result.overall}
    # Cases of nccl-tests are single tables, and too many to show.
    groups |= {name: each for name, each in result.groups.items() if not name.startswith("case ")}
    regime = f", {result.regime}" if result.regime else ""
    title = f"{result.kind}{regime}: absolute percentage errors"
    return errors_table(title, "rows of", groups)
