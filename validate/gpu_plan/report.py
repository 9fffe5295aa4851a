"""The plan's measured steps beside predictions: a table, a page, and a short record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.base.units import DATA, TIME, human
from dpsim.engine import Result, simulate
from dpsim.report.pages.document import document, table_html
from validate.emulate import Case
from validate.gpu_plan.plan import Plan
from validate.node import Attempt, Item, Rows, beside_prediction, short
from validate.run import StepRun

_HEADINGS = (
    "what",
    "measured",
    "by specification",
    "calibrated",
    "exposed communication",
    "predicted so",
    "memory",
    "off",
)


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """An item that was tried: with its predictions, or the reason why it has none."""

    item: Item
    attempt: Attempt
    run: StepRun | None = None
    calibrated: Result | None = None
    why: str = ""

    def cells(self) -> list[str]:
        """Return its cells in the order of the headings."""
        if self.run is None:
            return [self.item.name, self.why]
        measured = self.run.measured
        whole = measured.step_time_s["mean"]
        errors = [self.run.predicted, self.calibrated]
        exposed = [side.parts_s["exposed_comm"] for side in (measured, self.calibrated) if side]
        predicted_bytes = self.run.memory["predicted_bytes"] or 0.0
        peak = self.run.memory["measured_bytes"] or 0.0
        return [
            self.item.name,
            human(whole, TIME, 3),
            *("" if each is None else _error(each.step_time_s["mean"], whole) for each in errors),
            *(human(each, TIME, 3) for each in exposed),
            *[""] * (2 - len(exposed)),
            human(peak, DATA, 3),
            _error(predicted_bytes, peak),
        ]

    def record(self) -> dict[str, Any]:
        """Return the main results, in some 400 bytes; parts that took no time are left out."""
        kept: dict[str, Any] = {"name": self.item.name, "set": list(self.item.set)}
        if self.attempt.notes:
            kept["notes"] = self.attempt.notes
        if self.run is None:
            return {**kept, "failed": self.why}
        errors = {"specification": self.run.error["step_time"]}
        if self.calibrated is not None:
            whole = self.run.measured.step_time_s["mean"]
            errors["calibrated"] = self.calibrated.step_time_s["mean"] / whole - 1
        parts = self.run.measured.parts_s
        measured = {
            "step_time_s": self.run.measured.step_time_s["mean"],
            "parts_s": {name: seconds for name, seconds in parts.items() if seconds},
            "memory_bytes": self.run.memory["measured_bytes"],
        }
        found: dict[str, Any] = short({**kept, "measured": measured, "error": errors})
        return found


def lines_of(plan: Plan, items: Sequence[Item], rows: Rows) -> Iterator[Line]:
    """Yield the scenarios among ``items`` that were tried, in the plan's order."""
    for item in items:
        attempt = rows.best(item.name, item.identity)
        if attempt is None or item.scenario is None or item.traced or item.variants:
            continue
        if attempt.ended == "failed":
            yield Line(item, attempt, why=attempt.why)
        elif attempt.ended == "done":
            yield _beside(plan, item, attempt)


def _beside(plan: Plan, item: Item, found: Attempt) -> Line:
    case = plan.case(item)
    try:
        run = beside_prediction(case, plan.node, found.rows, "")
        calibrated = None
        if plan.profile.exists():
            own = Case(case.file, (*case.set, f"calibration={plan.profile.resolve()}"))
            calibrated = simulate(own.scenario())
    except DpsimError as error:
        return Line(item, found, why=str(error))
    return Line(item, found, run, calibrated)


def _error(predicted: float, measured: float) -> str:
    return f"{predicted / measured - 1:+.1%}" if measured else ""


def table(lines: Sequence[Line]) -> Any:
    """Return the table for a terminal."""
    from dpsim.base import terminal

    return terminal.table("", _HEADINGS, (line.cells() for line in lines), left=("what",))


def markdown(lines: Sequence[Line]) -> str:
    """Return the table for a page of the documentation."""
    rule = ["---", *["---:"] * (len(_HEADINGS) - 1)]
    rows = [[*_HEADINGS], rule, *(_pad(each.cells()) for each in lines)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def page(title: str, lines: Sequence[Line]) -> str:
    """Return a self-contained page with the table, and the disturbances of its measurements."""
    notes = dict.fromkeys(note for line in lines for note in line.attempt.notes)
    paragraphs = "".join(f"<p>{escape(note)}</p>" for note in notes)
    rows = [_pad(line.cells()) for line in lines]
    body = f"<h1>{escape(title)}</h1>{table_html(_HEADINGS, rows)}{paragraphs}"
    return document(title, body, figures=False)


def _pad(cells: Sequence[str]) -> list[str]:
    return [*cells, *[""] * (len(_HEADINGS) - len(cells))]
