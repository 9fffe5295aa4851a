"""Errors of predictions: of all counted records, of each kind, and of each group of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpsim.base.uncertainty import error_summary
from validate.records import RunRecord

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
