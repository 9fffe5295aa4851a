"""What the pieces wrote, and one table of it: measured beside predicted, twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from dpsim.base.units import DATA, TIME, human
from dpsim.engine import simulate
from validate.emulate import Case
from validate.gpu_plan.pieces import Plan, Row


def rows_of(folder: Path) -> Iterator[Row]:
    """What all pieces wrote, also those that were cut off."""
    for file in sorted([*folder.glob("*.jsonl"), *folder.glob("*.part")]):
        yield from rows_in(file)


def rows_in(file: Path) -> Iterator[Row]:
    """The rows of a piece, whole or not; nothing where it has not begun."""
    lines = file.read_text().splitlines() if file.exists() else []
    for line in lines:
        # A piece that was killed may have left half a line.
        with suppress(json.JSONDecodeError):
            yield json.loads(line)


def table_of(plan: Plan) -> Any:
    """Measured steps beside predictions by specification, and by the profile of this node."""
    from rich.table import Table

    table = Table(title="one rank, every variant", title_justify="left", show_edge=False)
    for heading in (
        "model",
        "variant",
        "measured",
        "by specification",
        "calibrated",
        "memory",
        "off",
    ):
        table.add_column(heading, justify="left" if heading in ("model", "variant") else "right")
    for row in rows_of(plan.folder):
        if row["what"] == "step":
            table.add_row(row["model"], _variant(row), *_beside_predictions(row, plan))
    return table


def _variant(row: Row) -> str:
    # The second setting of a case is its whole workload.
    workload = json.loads(row["set"][1].partition("=")[2])
    names = ("batch_per_gpu", "precision", "execution", "checkpoint")
    return ", ".join(str(workload[name]) for name in names)


def _beside_predictions(row: Row, plan: Plan) -> list[str]:
    """The cells from the measured step on; of a step that failed, why."""
    if "failed" in row:
        return [row["failed"][:40]]
    # Without the three steps of warm-up that the plan's scenario has.
    counted = sorted(row["step_s"][3:])
    measured = counted[len(counted) // 2]

    # From the settings that the row carries, as the simulator is today.
    case = Case(str(plan.folder / "scenario.yaml"), tuple(row["set"]))
    first = simulate(case.scenario())
    own = Case(case.file, (*case.set, f"calibration={plan.profile.resolve()}"))
    second = simulate(own.scenario()) if plan.profile.exists() else first

    errors = [each.step_time_s["mean"] / measured - 1 for each in (first, second)]
    held, peak = first.memory.held.total if first.memory else 0, row["peak_bytes"]
    return [
        human(measured, TIME, 3),
        *(f"{error:+.1%}" for error in errors),
        human(peak, DATA, 3),
        f"{held / max(peak, 1) - 1:+.1%}",
    ]
