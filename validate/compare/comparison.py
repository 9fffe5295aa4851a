"""Comparison of records of runs with their predictions: errors, choices, and worst cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpsim.base.errors import DpsimError
from dpsim.base.uncertainty import error_summary
from dpsim.engine import PARTS, run_scenario
from dpsim.report.figures.measured_figure import Pair
from dpsim.scenario import load_scenario
from validate.compare.ranking import Choice, choices, within
from validate.records import OF_A_STEP, RunRecord

_WORDS: dict[str, str] = {name: part.words for name, part in PARTS.items()}


@dataclass(frozen=True, slots=True)
class Cause:
    """The error of a prediction, and the part of the step with the largest error.

    ``error`` is signed; ``off_s`` is predicted minus measured, in s.
    """

    name: str
    error: float
    part: str | None
    off_s: float | None
    parts_s: dict[str, dict[str, float]]

    def to_json(self) -> dict[str, Any]:
        """Return the cause as plain values, with its sentence."""
        return {**asdict(self), "said": str(self)}

    def __str__(self) -> str:
        """Return one sentence."""
        off = f"{self.name}: predicted {self.error:+.1%}"
        if self.part is None or self.off_s is None:
            return off
        part = _WORDS.get(self.part, self.part)
        much = "too much" if self.off_s > 0 else "too little"
        ms = {side: 1e3 * seconds for side, seconds in self.parts_s[self.part].items()}
        return (
            f"{off}; {part} is {1e3 * abs(self.off_s):.1f} ms {much} "
            f"({ms['predicted']:.1f} ms, measured {ms['measured']:.1f} ms)"
        )


def cause(record: RunRecord) -> Cause:
    """Return the part of a step with the largest error; for a collective, only its error."""
    error = record.error or 0.0
    predicted = record.case.get("predicted", {}).get("parts_s")
    measured = record.case.get("measured", {}).get("parts_s")
    if record.kind != "step" or not predicted or not measured:
        return Cause(record.name, error, None, None, {})
    parts = {
        part: {"predicted": seconds, "measured": measured[part]}
        for part, seconds in predicted.items()
    }
    off = {part: both["predicted"] - both["measured"] for part, both in parts.items()}
    # Errors of parts may cancel, so name the part with the largest one.
    worst_part = max(off, key=lambda name: abs(off[name]))
    return Cause(record.name, error, worst_part, off[worst_part], parts)


def worst(records: list[RunRecord]) -> list[Cause]:
    """Return the five worst cases, worst first."""
    by_error = sorted(records, key=lambda record: -abs(record.error or 0.0))
    return [cause(record) for record in by_error[:5]]


SMALL = 2**18  # bytes: below, latencies matter as much as rates
_KINDS = ("steps", "collectives")  # the groups that come first


@dataclass(frozen=True, slots=True)
class Score:
    """The absolute percentage errors, as fractions, of ``n`` predictions.

    ``worst`` is the name of the worst case.
    """

    n: int
    median_ape: float
    mean_ape: float
    p95_ape: float
    worst_ape: float
    worst: str

    def to_json(self) -> dict[str, Any]:
        """Return the score as plain values."""
        return asdict(self)


def counted(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Return complete records with a prediction that were not used to fit the calibration."""
    return [
        record
        for record in records
        if record.predicted_s is not None and not record.fitted and not record.partial
    ]


def score(records: Sequence[RunRecord]) -> Score | None:
    """Return the errors of ``records``, all with predictions; None if there are none."""
    if not records:
        return None
    # The 0 is never used, as all have predictions.
    errors = [abs(record.error or 0.0) for record in records]
    return Score(**error_summary(errors), worst=records[int(np.argmax(errors))].name)


def groups(records: Iterable[RunRecord]) -> dict[str, list[RunRecord]]:
    """Group records by kind, then collectives by size and steps by their strategy."""
    found: dict[str, list[RunRecord]] = {}
    for record in records:
        for name in _groups(record):
            found.setdefault(name, []).append(record)
    names = sorted(found, key=lambda name: (name not in _KINDS, name))
    return {name: found[name] for name in names}


def _groups(record: RunRecord) -> Iterator[str]:
    if record.kind == "step":
        yield "steps"
        for key in ("aggregation", "sync", "overlap"):
            if key in record.case:
                yield f"steps, {key} {record.case[key]}"
        return
    yield "collectives"
    # Records of other tools may not state the size.
    if "bytes" in record.case:
        side = "below" if record.case["bytes"] < SMALL else "from"
        yield f"collectives, {side} 256 KiB"


NEAR = 0.05  # a choice is right if it takes at most this much longer than the fastest


@dataclass(frozen=True)
class Comparison:
    """Errors, choices and worst cases of records of runs."""

    records: Sequence[RunRecord]

    @cached_property
    def counted(self) -> list[RunRecord]:
        """The records whose errors count."""
        return counted(self.records)

    @cached_property
    def pairs(self) -> dict[str, list[Pair]]:
        """The counted records as points of a figure, by kind."""
        found: dict[str, list[Pair]] = {}
        for record in self.counted:
            # Counted records have a prediction, so the 0 is never used.
            pair = Pair(record.name, record.median_s, record.predicted_s or 0.0)
            found.setdefault(f"{record.kind}s", []).append(pair)
        return found

    @cached_property
    def overall(self) -> Score | None:
        """The errors of all counted records."""
        return score(self.counted)

    @cached_property
    def groups(self) -> dict[str, Score]:
        """The errors of each group."""
        scores = {name: score(members) for name, members in groups(self.counted).items()}
        return {name: one for name, one in scores.items() if one is not None}

    @cached_property
    def choices(self) -> list[Choice]:
        """The algorithm predicted to be fastest and the fastest one, in each setting."""
        # Include cases that were fitted on, since a ranking needs all algorithms of its setting.
        return choices(record for record in self.records if not record.partial)

    @cached_property
    def worst(self) -> list[Cause]:
        """The worst cases of each kind."""
        # Separately, or one kind could fill the list.
        kinds = dict.fromkeys(record.kind for record in self.counted)
        return [
            each
            for kind in kinds
            for each in worst([record for record in self.counted if record.kind == kind])
        ]

    def within(self, tolerance: float) -> bool:
        """Return whether the mean error of every kind is at most ``tolerance``."""
        # Separately, or many small errors of one kind would hide large ones of the other.
        return all(
            self.groups[name].mean_ape <= tolerance
            for name in ("steps", "collectives")
            if name in self.groups
        )

    def to_json(self) -> dict[str, Any]:
        """Return the object of ``dpsim validate compare --json``."""
        return {
            "schema_version": 1,
            "kind": "validate-compare",
            "overall": self.overall and self.overall.to_json(),
            "groups": {name: one.to_json() for name, one in self.groups.items()},
            "choices": [
                {**asdict(choice), "right": choice.regret <= NEAR} for choice in self.choices
            ],
            "choices_right": within(self.choices, NEAR) if self.choices else None,
            "worst": [cause.to_json() for cause in self.worst],
            "rows": [_row(record) for record in self.counted],
            "fitted_on": sum(record.fitted for record in self.records),
            "partial": [record.name for record in self.records if record.partial],
            "not_predicted": [record.name for record in self.records if record.predicted_s is None],
        }


def _row(record: RunRecord) -> dict[str, Any]:
    return {
        "kind": record.kind,
        "name": record.name,
        "setting": record.setting,
        "predicted_s": record.predicted_s,
        "measured_s": record.median_s,
        "error": record.error,
    }


def predict_again(
    records: Iterable[RunRecord],
    done: Callable[[int], None] = lambda count: None,
) -> list[RunRecord]:
    """Return the records with new predictions.

    Predictions of steps come from their scenario files; collectives stay as they are. Raises
    DpsimError where a scenario's file is not where the record says.
    """
    found = []
    for count, record in enumerate(records, 1):
        found.append(_step(record) if record.kind == "step" else record)
        done(count)
    return found


def _step(record: RunRecord) -> RunRecord:
    if "scenario" not in record.case:
        raise DpsimError(
            f"{record.name}: must name its scenario's file to be predicted again, but does not"
        )
    # The measurement had the file's warm-up, whether steps had settled or not.
    scenario = load_scenario(record.case["scenario"], record.case.get("set", []))
    result = run_scenario(scenario, settle=False).result.to_json()
    case = {**record.case, "predicted": {key: result[key] for key in OF_A_STEP}}
    return record.model_copy(update={"predicted_s": result["step_time_s"]["mean"], "case": case})
