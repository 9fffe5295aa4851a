"""Rows of step times as the engine predicts them, and errors over all of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dpsim.base.doubt import PredictionInterval
from validate.published.tables.csv_file import Row
from validate.published.tables.published_step import PublishedStep
from validate.published.tables.step_scores import Status, StepReference


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """A row beside its prediction: what ``dpsim run`` says of its scenario.

    ``identity`` are the columns that tell it from others. ``naive`` is the step (s) at the time
    that each sample takes in the row ``known``; both are None where none is known. ``memory`` is
    what a GPU holds at its peak in bytes, and ``fits`` whether it has room.
    """

    step: PublishedStep
    identity: Mapping[str, str]
    predicted: float
    interval: PredictionInterval | None
    constants: str
    status: Status
    naive: float | None
    known: str | None
    memory: float
    fits: bool

    @property
    def line(self) -> int:
        """Where the row stands in its table."""
        return self.step.row.line

    @property
    def measured(self) -> float:
        """Measured seconds of a step."""
        return self.step.measured

    @property
    def groups(self) -> tuple[str, ...]:
        """The headings under which its error is summed up."""
        return self.step.groups

    @property
    def reason(self) -> str | None:
        """Why it stands apart, if it does."""
        return self.step.reason

    @property
    def efficiency(self) -> None:
        """Rows of steps have none."""

    @property
    def ape(self) -> float:
        """Absolute percentage error, as a fraction."""
        return abs(self.predicted / self.measured - 1)

    def to_json(self) -> dict[str, Any]:
        """The row in the command's JSON."""
        shown = {
            "row_id": self.step.row_id,
            **self.identity,
            "line": self.line,
            "status": self.status,
            **self._times("ms", 1e3),
            "ape": self.ape,
            "extrapolated": [] if self.interval is None else [*self.interval.extrapolated],
            "constants": self.constants,
            "software": dict(self.step.software),
            "predicted_memory_gb": self.memory / 1e9,
            "measured_memory_gb": None if self.step.memory is None else self.step.memory / 1e9,
            "fits": self.fits,
            **self.step.shown,
        }
        if self.reason is not None:
            shown["reason"] = self.reason
        if self.step.steps is not None:
            # Of the whole training, in minutes.
            shown |= self._times("min", self.step.steps / 60)
        if self.naive is not None:
            shown["known_row"] = self.known
            shown["naive_ms"] = self.naive * 1e3
            shown["naive_ape"] = abs(self.naive / self.measured - 1)
        return shown

    def _times(self, unit: str, scale: float) -> dict[str, float | None]:
        """Seconds of a step times ``scale``; the ends of the interval as ``low_`` and ``high_``."""
        ends = (None, None) if self.interval is None else (self.interval.low, self.interval.high)
        low, high = (None if end is None else end * scale for end in ends)
        return {
            f"predicted_{unit}": self.predicted * scale,
            f"measured_{unit}": self.measured * scale,
            f"low_{unit}": low,
            f"high_{unit}": high,
        }


class Refused(NamedTuple):
    """A row without a prediction, and why."""

    row: Row
    identity: Mapping[str, str]
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The row in the command's JSON, among those that stand apart."""
        return {
            "row_id": self.row.row_id,
            **self.identity,
            "line": self.row.line,
            "status": "not predicted",
            "predicted_ms": None,
            "measured_ms": None,
            "reason": self.reason,
        }


@dataclass(slots=True)
class SimulatedReference(StepReference):
    """The rows of one table, and those that dpsim does not simulate."""

    refused: list[Refused] = field(default_factory=list)

    def refuse(self, row: Row, identity: Sequence[str], reason: str) -> None:
        """Add a row without a prediction; ``identity`` are the columns that are shown of it."""
        self.refused.append(Refused(row, row.cells(identity), reason))
        self.not_predicted.append((row.line, reason))

    def to_json(self) -> dict[str, Any]:
        """The JSON object of the command; errors are fractions, times in ms."""
        shown = StepReference.to_json(self)
        shown["rows_apart"] += [row.to_json() for row in self.refused]
        shown["memory"] = _memory(self.every)
        naive = [row for row in self.counted if row.naive is not None]
        if naive:
            shown["naive"] = _beside_naive(naive)
        return shown


def _memory(rows: Sequence[SimulatedStep]) -> dict[str, float | int]:
    """Errors of peak memory where it was measured, and rows that ran but are said not to fit."""
    known = [row for row in rows if row.step.memory is not None and row.status != "apart"]
    errors = [abs(row.memory / (row.step.memory or 1.0) - 1) for row in known]
    found: dict[str, float | int] = {"n": len(errors)}
    if errors:
        found |= {"mean_ape": float(np.mean(errors)), "worst_ape": max(errors)}
    return {**found, "said_not_to_fit": sum(not row.fits for row in rows)}


def _beside_naive(rows: Sequence[SimulatedStep]) -> dict[str, float | int]:
    """Errors of rows with a known one: dpsim's, and at the same time for each sample."""
    ours = [row.ape for row in rows]
    naive = [abs((row.naive or 0.0) / row.measured - 1) for row in rows]
    return {
        "n": len(rows),
        "median_ape": float(np.median(ours)),
        "mean_ape": float(np.mean(ours)),
        "naive_median_ape": float(np.median(naive)),
        "naive_mean_ape": float(np.mean(naive)),
    }
