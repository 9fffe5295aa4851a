"""Rows of step times beside the engine's predictions, and errors over groups of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dpsim.base.uncertainty import PredictionInterval, error_summary
from validate.published.tables.csv_file import Row
from validate.published.tables.published_step import PublishedStep, Regime, Status, StepKind

Rows = Sequence[Any]  # of step times or of collectives, with ``constants`` and ``to_json``


def constants_of(rows: Rows) -> dict[str, int]:
    """How many rows were predicted with which constants."""
    return dict(sorted(Counter(row.constants for row in rows).items()))


def rows_json(
    counted: Rows,
    apart: Rows,
    fitted: Rows,
    summary: Callable[[Rows], dict[str, float | int]],
) -> dict[str, Any]:
    """The rows in JSON, and the errors of rows that are reported separately."""
    return {
        "rows": [row.to_json() for row in counted],
        "rows_apart": [row.to_json() for row in apart],
        "rows_fitted_on": [row.to_json() for row in fitted],
        "overall_apart": summary(apart) if apart else None,
    }


Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class StepRow:
    """A row beside its prediction, the answer of ``dpsim run`` to its scenario.

    ``identity`` are the columns that identify it. ``naive`` is the step (s) if each sample takes
    the same time as in the row ``known``; both are None if no row is known. ``memory`` is the peak
    of a GPU in bytes, and ``fits`` whether it has room.
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
        """The row's line in its table."""
        return self.step.row.line

    @property
    def measured(self) -> float:
        """The measured seconds of a step."""
        return self.step.measured

    @property
    def ape(self) -> float:
        """The absolute percentage error, as a fraction."""
        return abs(self.predicted / self.measured - 1)

    def to_json(self) -> dict[str, Any]:
        """Return the row in the command's JSON."""
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
        if self.step.reason is not None:
            shown["reason"] = self.step.reason
        if self.step.steps is not None:
            # For the whole training, in minutes.
            shown |= self._times("min", self.step.steps / 60)
        if self.naive is not None:
            shown["known_row"] = self.known
            shown["naive_ms"] = self.naive * 1e3
            shown["naive_ape"] = abs(self.naive / self.measured - 1)
        return shown

    def _times(self, unit: str, scale: float) -> dict[str, float | None]:
        """Return a step's times times ``scale``; ``low_`` and ``high_`` are the interval."""
        ends = (None, None) if self.interval is None else (self.interval.low, self.interval.high)
        low, high = (None if end is None else end * scale for end in ends)
        return {
            f"predicted_{unit}": self.predicted * scale,
            f"measured_{unit}": self.measured * scale,
            f"low_{unit}": low,
            f"high_{unit}": high,
        }


class Refused(NamedTuple):
    """A row without a prediction, and the reason."""

    row: Row
    identity: Mapping[str, str]
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the row in the command's JSON, among those set apart."""
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
class StepReference:
    """Scored rows of one table of step times: the result of ``dpsim validate reference``.

    ``refused`` are the rows that dpsim does not simulate, ``beside`` further entries of the JSON.
    """

    kind: StepKind
    regime: Regime = "specification"
    every: list[StepRow] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    beside: dict[str, Any] = field(default_factory=dict)

    @property
    def counted(self) -> list[StepRow]:
        """The rows whose error counts."""
        return self._of("counted")

    @property
    def apart(self) -> list[StepRow]:
        """The rows that are predicted the same way but do not count, each with a reason."""
        return self._of("apart")

    @property
    def fitted(self) -> list[StepRow]:
        """The known rows, on which others are calibrated: their error is meaningless."""
        return self._of("fitted on")

    def _of(self, status: Status) -> list[StepRow]:
        return sorted((row for row in self.every if row.status == status), key=lambda row: row.line)

    @property
    def not_predicted(self) -> list[tuple[int, str]]:
        """The line of each row without a prediction, and the reason."""
        return [(row.row.line, row.reason) for row in self.refused]

    @property
    def overall(self) -> dict[str, float | int] | None:
        """The errors over all rows that count; None if there are none."""
        return summary(self.counted) if self.counted else None

    @property
    def groups(self) -> dict[str, dict[str, float | int]]:
        """The errors by group; groups of rows set apart end in ", apart"."""
        found: dict[str, list[StepRow]] = {}
        for rows, end in ((self.counted, ""), (self.apart, ", apart")):
            for row in rows:
                for name in row.step.groups:
                    found.setdefault(f"{name}{end}", []).append(row)
        return {name: summary(found[name]) for name in sorted(found)}

    @property
    def apart_by_reason(self) -> dict[str, dict[str, float | int]]:
        """The errors of the rows set apart, by reason."""
        found: dict[str, list[StepRow]] = {}
        for row in self.apart:
            found.setdefault(row.step.reason or "", []).append(row)
        return {reason: summary(found[reason]) for reason in sorted(found)}

    @property
    def constants(self) -> dict[str, int]:
        """The number of rows predicted with each source of constants."""
        return constants_of(self.every)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the command; errors are fractions, times in ms."""
        shown = {
            "schema_version": 1,
            "kind": self.kind,
            "regime": self.regime,
            "overall": self.overall,
            "groups": self.groups,
            **rows_json(self.counted, self.apart, self.fitted, summary),
            "apart_by_reason": self.apart_by_reason,
            "left_out": None,
            "not_predicted": [
                {"line": line, "reason": reason} for line, reason in sorted(self.not_predicted)
            ],
            "notes": self.notes,
            "memory": _memory(self.every),
            "constants": self.constants,
            **self.beside,
        }
        shown["rows_apart"] += [row.to_json() for row in self.refused]
        naive = [row for row in self.counted if row.naive is not None]
        return {**shown, "naive": _beside_naive(naive)} if naive else shown


def summary(rows: Sequence[StepRow]) -> dict[str, float | int]:
    """Return absolute percentage errors: n, median, mean, 95th percentile, worst and its line.

    ``bias`` is the median of predicted / measured - 1, ``coverage`` the share of rows in their
    intervals.
    """
    errors = [row.ape for row in rows]
    statistics: dict[str, float | int] = {
        **error_summary(errors),
        "worst_line": rows[int(np.argmax(errors))].line,
        "bias": float(np.median([row.predicted / row.measured - 1 for row in rows])),
    }
    inside = [
        row.interval.low <= row.measured <= row.interval.high
        for row in rows
        if row.interval is not None
    ]
    if not inside:
        return statistics
    widths = [row.interval.width for row in rows if row.interval is not None]
    covered = {"coverage": float(np.mean(inside)), "median_width": float(np.median(widths))}
    return statistics | covered


def _memory(rows: Sequence[StepRow]) -> dict[str, float | int]:
    """Return the errors of measured peak memory, and how many rows are wrongly said not to fit."""
    known = [row for row in rows if row.step.memory is not None and row.step.status != "apart"]
    errors = [abs(row.memory / (row.step.memory or 1.0) - 1) for row in known]
    found: dict[str, float | int] = {"n": len(errors)}
    if errors:
        found |= {"mean_ape": float(np.mean(errors)), "worst_ape": max(errors)}
    return {**found, "said_not_to_fit": sum(not row.fits for row in rows)}


def _beside_naive(rows: Sequence[StepRow]) -> dict[str, float | int]:
    """Compare dpsim's errors with naive ones (same time per sample) where a row is known."""
    ours = [row.ape for row in rows]
    naive = [abs((row.naive or 0.0) / row.measured - 1) for row in rows]
    return {
        "n": len(rows),
        "median_ape": float(np.median(ours)),
        "mean_ape": float(np.mean(ours)),
        "naive_median_ape": float(np.median(naive)),
        "naive_mean_ape": float(np.mean(naive)),
    }
