"""Rows of step-time tables beside their predictions, and errors summed up over groups of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from dpsim.base.doubt import Doubt, PredictionInterval
from validate.published.tables.answers import constants_of, errors_of, rows_json
from validate.published.tables.columns import Columns

StepKind = Literal[
    "single-gpu", "adaptdl", "vtrain", "scaling", "overlap", "imagenet", "llm", "mlperf", "steps"
]
STEP_KINDS: tuple[StepKind, ...] = get_args(StepKind)
Regime = Literal["specification", "calibrated"]
Status = Literal["counted", "apart", "fitted on"]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class StepRow:
    """One row of a table beside its prediction.

    Times are seconds, None where the table states none; ``efficiency`` is (predicted, measured)
    where the table is about scaling. ``constants`` says what the prediction's constants were fitted
    on, ``groups`` the headings under which its error is summed up, ``reason`` why it stands apart
    if it does, ``doubt`` how far such predictions are off.
    """

    line: int
    identity: Mapping[str, str]
    predicted: float | None
    measured: float | None
    constants: str
    status: Status
    groups: tuple[str, ...]
    efficiency: tuple[float, float] | None = None
    reason: str | None = None
    doubt: Doubt | None = None

    @property
    def ape(self) -> float:
        """Absolute percentage error, as a fraction.

        Of the efficiency where there is one, else of the step time.
        """
        predicted, measured = self.efficiency or (self.predicted, self.measured)
        assert predicted is not None
        assert measured is not None
        return abs(predicted / measured - 1)

    @property
    def interval(self) -> PredictionInterval | None:
        """Between which the measured step lies; None where no residuals of its like are kept."""
        if self.doubt is None or self.predicted is None or self.measured is None:
            return None
        return self.doubt.around(self.predicted)

    def between(self, unit: float, name: str) -> dict[str, Any]:
        """The ends of the interval in ``unit`` seconds, ``low_name`` and ``high_name``, or None."""
        interval = self.interval
        if interval is None:
            return {f"low_{name}": None, f"high_{name}": None, "extrapolated": []}
        return {
            f"low_{name}": interval.low / unit,
            f"high_{name}": interval.high / unit,
            "extrapolated": list(interval.extrapolated),
        }

    def to_json(self) -> dict[str, Any]:
        """The columns that identify the row, and times in ms."""
        scale: dict[str, Any] = {}
        if self.efficiency is not None:
            scale = {
                "predicted_efficiency": self.efficiency[0],
                "measured_efficiency": self.efficiency[1],
            }
        return {
            **self.identity,
            "line": self.line,
            "predicted_ms": None if self.predicted is None else self.predicted * 1e3,
            "measured_ms": None if self.measured is None else self.measured * 1e3,
            **self.between(1e-3, "ms"),
            **scale,
            "ape": self.ape,
            "constants": self.constants,
            **({} if self.reason is None else {"reason": self.reason}),
        }


def by_quality(*qualities: str) -> tuple[Status, str | None]:
    """Whether a row counts by the qualities that the table states, and why if it does not."""
    lacking = [quality for quality in qualities if quality not in ("", "ok")]
    return ("apart", f"quality: {lacking[0]}") if lacking else ("counted", None)


@dataclass(slots=True)
class StepReference:
    """Scored rows of one table of step times: what ``dpsim validate reference`` answers for it.

    ``left_out`` says in words what was kept from the fits where the table and the fitted rows
    overlap; ``notes`` and ``not_predicted`` are (line, text).
    """

    kind: StepKind
    every: list[Any] = field(default_factory=list)
    left_out: str | None = None
    not_predicted: list[tuple[int, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    regime: Regime = "specification"

    @property
    def counted(self) -> list[Any]:
        """Rows whose error counts."""
        return self._of("counted")

    @property
    def apart(self) -> list[Any]:
        """Rows that are predicted the same way but stand apart, each for its reason."""
        return self._of("apart")

    @property
    def fitted(self) -> list[Any]:
        """Rows that something was fitted on: their error says nothing."""
        return self._of("fitted on")

    def _of(self, status: Status) -> list[Any]:
        return sorted((row for row in self.every if row.status == status), key=lambda row: row.line)

    @property
    def overall(self) -> dict[str, float | int] | None:
        """Errors over all rows that count; None where there is none."""
        return errors_of(self.counted, summary)

    @property
    def groups(self) -> dict[str, dict[str, float | int]]:
        """Errors by group; groups of rows that stand apart end in ", apart"."""
        found: dict[str, list[StepRow]] = {}
        for row in self.counted:
            for name in row.groups:
                found.setdefault(name, []).append(row)
        for row in self.apart:
            for name in row.groups:
                found.setdefault(f"{name}, apart", []).append(row)
        return {name: summary(found[name]) for name in sorted(found)}

    @property
    def apart_by_reason(self) -> dict[str, dict[str, float | int]]:
        """Errors of the rows that stand apart, by reason."""
        found: dict[str, list[StepRow]] = {}
        for row in self.apart:
            found.setdefault(row.reason or "", []).append(row)
        return {reason: summary(found[reason]) for reason in sorted(found)}

    @property
    def constants(self) -> dict[str, int]:
        """How many rows were predicted with which constants."""
        return constants_of(self.every)

    def to_json(self) -> dict[str, Any]:
        """The JSON object of the command; errors are fractions, times in ms."""
        return {
            "schema_version": 1,
            "kind": self.kind,
            "regime": self.regime,
            "overall": self.overall,
            "groups": self.groups,
            **rows_json(self.counted, self.apart, self.fitted, summary),
            "apart_by_reason": self.apart_by_reason,
            "left_out": self.left_out,
            "not_predicted": [
                {"line": line, "reason": reason} for line, reason in sorted(self.not_predicted)
            ],
            "notes": self.notes,
            "constants": self.constants,
        }

    def note(self, text: str) -> None:
        """Add a note once."""
        if text not in self.notes:
            self.notes.append(text)


def summary(rows: Sequence[StepRow]) -> dict[str, float | int]:
    """Absolute percentage errors: n, median, mean, 95th percentile, worst and its line.

    ``bias`` is the median of predicted / measured - 1. Of efficiencies there are points too,
    hundredths of efficiency as fractions (0.04 is 4 points). ``coverage`` is the share of rows in
    their intervals.
    """
    errors = np.array([row.ape for row in rows])
    pairs = [row.efficiency or (row.predicted, row.measured) for row in rows]
    found: dict[str, float | int] = {
        **_spread(errors, "ape"),
        "worst_line": rows[int(errors.argmax())].line,
        "bias": float(np.median([float(p or 0) / float(m or 1) - 1 for p, m in pairs])),
    }
    efficiencies = [row.efficiency for row in rows if row.efficiency is not None]
    points = np.array([abs(predicted - measured) for predicted, measured in efficiencies])
    inside = [
        row.interval.low <= (row.measured or 0.0) <= row.interval.high
        for row in rows
        if row.interval is not None
    ]
    if inside:
        found["coverage"] = float(np.mean(inside))
    return {"n": len(rows), **found, **(_spread(points, "points") if len(points) else {})}


def _spread(errors: np.typing.NDArray[np.float64], what: str) -> dict[str, float | int]:
    return {
        f"median_{what}": float(np.median(errors)),
        f"mean_{what}": float(errors.mean()),
        f"p95_{what}": float(np.percentile(errors, 95)),
        f"worst_{what}": float(errors.max()),
    }


def identities(rows: Columns, names: Sequence[str]) -> list[dict[str, str]]:
    """The columns of each row that tell it from the others, those that the table has."""
    kept = [name for name in names if name in rows.columns]
    cells = zip(*(rows.text(name).tolist() for name in kept), strict=True)
    return [dict(zip(kept, values, strict=True)) for values in cells]
