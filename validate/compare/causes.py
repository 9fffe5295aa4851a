"""Causes of a step's prediction error: the part with the largest error."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dpsim.engine import PARTS
from validate.records import RunRecord

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
    # Parts may cancel: the largest error needs fixing, not the part that explains the sum.
    worst_part = max(off, key=lambda name: abs(off[name]))
    return Cause(record.name, error, worst_part, off[worst_part], parts)


def worst(records: list[RunRecord]) -> list[Cause]:
    """Return the five worst cases, worst first."""
    by_error = sorted(records, key=lambda record: -abs(record.error or 0.0))
    return [cause(record) for record in by_error[:5]]
