"""``dpsim validate reference imagenet``.

Time to train of the historic ImageNet records and of MLPerf results.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dpsim.base.arrays import BoolArray, FloatArray
from dpsim.base.errors import DpsimError
from validate.published.imagenet.model import EFFECTS, Effects, fit
from validate.published.imagenet.records import read_record
from validate.published.imagenet.steps import Curve, curve
from validate.published.tables import (
    Columns,
    Progress,
    StepReference,
    StepRow,
    constants_file,
    identities,
    numbers_of,
    occurs,
    packaged_table,
    source_of,
)

TABLE, FITTED = "imagenet_records.csv", "imagenet/fitted.yaml"
REQUIRED = (
    "record_id",
    "who",
    "model",
    "hardware",
    "accelerators",
    "interconnect",
    "global_batch",
    "epochs",
    "time_min",
)
CONFIGURATION = ("who", "model", "hardware", "accelerators")
IDENTITY = (
    "record_id", "who", "year", "model", "hardware", "accelerators", "interconnect", "global_batch",
    "epochs", "source_status",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordRow(StepRow):
    """A record, its time and what was assumed of it.

    ``predicted`` and ``measured`` are seconds of the whole training; ``assumed`` is what the row
    did not say.
    """

    assumed: tuple[str, ...] = ()
    global_batch: int = 0
    steps: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The columns that identify the record, and its times in minutes."""
        assert self.predicted is not None
        assert self.measured is not None
        return {
            **self.identity,
            "line": self.line,
            "predicted_min": self.predicted / 60,
            "measured_min": self.measured / 60,
            **self.between(60.0, "min"),
            "ape": self.ape,
            "predicted_global_batch": self.global_batch,
            "predicted_steps": self.steps,
            "assumed": list(self.assumed),
            "constants": self.constants,
        }


def compare(tested: Columns, known: Columns | None, progress: Progress) -> StepReference:
    """Predict each record of ``tested`` without the record itself.

    Effects are fitted on ``known`` (None: shipped).
    """
    result = StepReference("imagenet")
    source, words = source_of(known, TABLE, REQUIRED)
    fits = _Fits(source, known is None, progress)
    seen = occurs(tested, source, CONFIGURATION)
    if seen.any():
        result.left_out = "each record that was fitted on is left out of the fit that predicts it"
    kept, measured = identities(tested, IDENTITY), tested.above_zero("time_min") * 60
    for row, line in enumerate(tested.line.tolist()):
        try:
            one = _timed(fits, tested, row, measured)
        except DpsimError as error:
            result.not_predicted.append((line, str(error)))
            continue
        effects = fits.without(tested, row) if seen[row] else fits.whole()
        own = f"{words}, without this record" if seen[row] else words
        result.every.append(
            _scored(one, kept[row], effects.seconds(one), float(measured[row]), own)
        )
        progress("predicting", row + 1, len(tested))
    return result


def _timed(fits: _Fits, rows: Columns, row: int, measured: FloatArray) -> Curve:
    """The curve of a record. Raises DpsimError where it cannot be predicted or states no time."""
    if np.isnan(measured[row]):
        raise DpsimError("time to train not stated")
    return fits.curve(rows, row)


def _scored(
    one: Curve, identity: dict[str, str], predicted: float, measured: float, words: str
) -> RecordRow:
    record, plan = one.record, one.plan
    groups = (f"suite {record.suite}", f"model {record.model}", f"chip {record.chip}")
    return RecordRow(
        record.line,
        identity,
        predicted,
        measured,
        words,
        "counted",
        groups,
        assumed=record.assumed,
        global_batch=plan.global_batch,
        steps=plan.steps,
    )


class _Fits:
    """Fits on the records of a table, each of them made once."""

    def __init__(self, source: Columns, public: bool, progress: Progress) -> None:
        self._source = source
        self._public = public
        self._progress = progress
        self._curves: dict[str, Curve] = {}
        self._measured = source.above_zero("time_min") * 60
        self._fitted: dict[bytes, Effects] = {}

    def curve(self, rows: Columns, row: int) -> Curve:
        """The curve of a record. Raises DpsimError where it cannot be predicted."""
        # By what the row says, not by its place: tested and fitted tables share most of their rows.
        key = repr([(name, str(column[row])) for name, column in sorted(rows.columns.items())])
        if key not in self._curves:
            self._curves[key] = curve(read_record(rows, row))
        return self._curves[key]

    def whole(self) -> Effects:
        """Fitted on all."""
        if self._public:
            return shipped()
        return self.fitted(np.ones(len(self._source), dtype=np.bool_))

    def without(self, rows: Columns, row: int) -> Effects:
        """Fitted on all but those of the same configuration."""
        one = rows.where(np.array([row]))
        return self.fitted(~occurs(self._source, one, CONFIGURATION))

    def fitted(self, keep: BoolArray) -> Effects:
        """Fitted on the chosen rows, those that can be predicted and state a time."""
        # An array is no key, its bytes are: records of one configuration share a fit.
        key = keep.tobytes()
        if key not in self._fitted:
            usable = dict(self._usable(keep))
            self._fitted[key] = fit(list(usable.values()), self._measured[list(usable)])
        return self._fitted[key]

    def _usable(self, keep: BoolArray) -> Iterator[tuple[int, Curve]]:
        for row in np.flatnonzero(keep).tolist():
            with suppress(DpsimError):  # a record that cannot be predicted tells nothing either
                yield row, _timed(self, self._source, row, self._measured)
            self._progress("reading records to fit on", row + 1, len(self._source))


def public_effects() -> Effects:
    """Fitted on all public records: what the package ships."""
    return _public().fitted(np.ones(len(packaged_table(TABLE, REQUIRED)), dtype=np.bool_))


def shipped() -> Effects:
    """The effects of the package, fitted on all public records."""
    content = constants_file(FITTED)
    return Effects(
        values={effect: numbers_of(content[effect]) for effect in EFFECTS},
        errors={effect: numbers_of(content[effect], "error") for effect in EFFECTS},
    )


@cache
def _public() -> _Fits:
    return _Fits(packaged_table(TABLE, REQUIRED), True, lambda what, done, total: None)


def effects_without(row: int) -> tuple[Curve, Effects]:
    """A public record and the effects fitted without it.

    Raises DpsimError where it cannot be predicted.
    """
    rows = packaged_table(TABLE, REQUIRED)
    return _public().curve(rows, row), _public().without(rows, row)
