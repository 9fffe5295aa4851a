"""``dpsim validate reference llm``: steps of language models, each row a scenario of the engine.

*specification*: from the description alone. *calibrated*: the row of fewest GPUs of a case is
known; all compute times of the case are scaled until the engine takes as long there. Beside it
stands what one takes without a model: tokens/s per GPU stay as they are there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dpsim.base.doubt import PredictionInterval
from dpsim.base.errors import DpsimError
from dpsim.engine import compute_doubt, memory_use, scale_to
from validate.published.llm.fit import Constants, fit
from validate.published.llm.rows import IDENTITY, REQUIRED, LlmRow, NotSimulatedError, read_row
from validate.published.llm.scenarios import assumed_network, scenario_of
from validate.published.llm.simulate import job_of, step_of, works_of
from validate.published.tables import (
    Columns,
    Progress,
    Regime,
    Status,
    StepReference,
    StepRow,
    by_quality,
    identities,
    occurs,
    source_of,
)

TABLE = "llm_fsdp.csv"
CONFIGURATION = (
    "source", "framework", "note", "model", "params", "gpu", "gpus", "seq_len", "precision",
    "sharding", "shard_group", "act_ckpt", "compiled", "micro_batch", "grad_accum",
)  # fmt: skip
_SIZES = ((1e9, "below 1 G"), (5e9, "1 to 5 G"), (15e9, "5 to 15 G"))  # parameters


@dataclass(frozen=True, slots=True)
class LlmStep(StepRow):
    """A row and the network that was taken for it.

    ``naive`` is the step (s) at constant tokens/s per GPU, None where no row of the case is known.
    ``memory`` is what a GPU takes at its peak (bytes), predicted and measured, ``fits`` whether
    that is said to have room. ``fused`` is whether attention is one kernel.
    """

    network: str = ""
    naive: float | None = None
    memory: tuple[float, float | None] = (0.0, None)
    fits: bool = True
    fused: bool = True

    @property
    def interval(self) -> PredictionInterval | None:
        """By what the model leaves of sources that no fit saw; none of calibrated steps is kept."""
        if self.predicted is None or self.doubt is None or self.naive is not None:
            return None
        return self.doubt.around(self.predicted)

    def to_json(self) -> dict[str, Any]:
        """The columns that identify the row, times in ms, and what was assumed."""
        shown = {
            **StepRow.to_json(self),
            "network": self.network,
            "predicted_memory_gb": self.memory[0] / 1e9,
            "measured_memory_gb": None if self.memory[1] is None else self.memory[1] / 1e9,
            "fits": self.fits,
        }
        if self.naive is not None:
            shown["naive_ms"] = self.naive * 1e3
            shown["naive_ape"] = abs(self.naive / (self.measured or 1.0) - 1)
        return shown


@dataclass(slots=True)
class LlmReference(StepReference):
    """The rows; those that dpsim does not simulate stand apart too, without a prediction."""

    without: list[tuple[int, dict[str, str], str]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """That of other tables of step times; every row apart has its reason."""
        shown = StepReference.to_json(self)
        shown["rows_apart"] += [
            {**identity, "line": line, "predicted_ms": None, "measured_ms": None, "reason": reason}
            for line, identity, reason in self.without
        ]
        shown["memory"] = self._memory()
        naive = [row for row in self.counted if isinstance(row, LlmStep) and row.naive is not None]
        if naive:
            shown["naive"] = self._beside_naive(naive)
        return shown

    def _memory(self) -> dict[str, float | int]:
        """Errors of peak memory where it was measured, and rows that ran but are said not to."""
        steps = [row for row in self.every if isinstance(row, LlmStep)]
        errors = []
        for predicted, measured in (row.memory for row in steps):
            if measured is not None:
                errors.append(abs(predicted / measured - 1))
        found: dict[str, float | int] = {"n": len(errors)}
        if errors:
            found |= {"mean_ape": float(np.mean(errors)), "worst_ape": max(errors)}
        return {**found, "said_not_to_fit": sum(not row.fits for row in steps)}

    def _beside_naive(self, rows: Sequence[LlmStep]) -> dict[str, float | int]:
        """Mean errors beyond one node: dpsim's, and at constant tokens/s per GPU."""
        ours = float(np.mean([row.ape for row in rows]))
        naive = [abs((row.naive or 0.0) / (row.measured or 1.0) - 1) for row in rows]
        return {"n": len(rows), "mean_ape": ours, "naive_mean_ape": float(np.mean(naive))}


def compare(
    tested: Columns,
    known: Columns | None,
    progress: Progress,
    regime: Regime = "specification",
) -> LlmReference:
    """Predict every row of ``tested``.

    Constants are fitted on ``known`` (None: shipped); rows that they saw are predicted by constants
    fitted without the row's model or source.
    """
    result = LlmReference("llm", regime=regime)
    kept = identities(tested, IDENTITY)
    rows: list[LlmRow] = []
    for index, line in enumerate(tested.line.tolist()):
        try:
            rows.append(read_row(tested, index))
        except NotSimulatedError as reason:
            result.without.append((line, kept[index], str(reason)))

    source, words = source_of(known, TABLE, REQUIRED)
    fits = _Fits(source, words, known is None, progress)
    seen = occurs(tested, source, CONFIGURATION)
    if seen.any():
        result.left_out = (
            "of rows that were fitted on: for MosaicML's in bf16 of 2023 on the row's model, for "
            "others the row's source"
        )
    with TemporaryDirectory() as folder:
        steps = _Steps(Path(folder), fits, seen, rows if regime == "calibrated" else ())
        for done, row in enumerate(rows, 1):
            line = int(tested.line[row.index])
            try:
                scored = steps.scored(row, line, kept[row.index])
            except NotSimulatedError as reason:
                result.without.append((line, kept[row.index], str(reason)))
                continue
            result.every.append(scored)
            progress("predicting", done, len(rows))
    return result


def group_of(row: LlmRow) -> str:
    """What is left out of the fit that predicts a row which it would have seen."""
    recent = "MosaicML" in row.source and row.year >= 2023 and row.precision == "bf16"
    return f"model {row.model}" if recent else f"source {row.source}"


def fitted_rows(table: Columns) -> list[LlmRow]:
    """The rows that constants are fitted on: simulated, measured, of quality ok, and with flash."""
    found = []
    with TemporaryDirectory() as folder:
        for index in range(len(table)):
            try:
                row = read_row(table, index)
                # Only asked for: it raises where dpsim has no word for what a row says.
                scenario_of(row, Path(folder))
            except NotSimulatedError:
                continue
            if row.measured is not None and row.quality in ("", "ok") and row.flash:
                found.append(row)
    return found


class _Fits:
    """Constants by what they must not have seen."""

    def __init__(self, source: Columns, words: str, shipped: bool, progress: Progress) -> None:
        self._source = source
        self._words = words
        self._shipped = shipped
        self._progress = progress
        self._found: dict[str, Constants] = {}

    def whole(self) -> tuple[Constants | None, str]:
        """The constants on all rows, None for the package's own, and what they are in words."""
        return None if self._shipped else self._fitted(""), self._words

    def without(self, group: str) -> tuple[Constants | None, str]:
        """The same without a model or a source."""
        words = f"{self._words}, without {group}"
        if not self._shipped:
            return self._fitted(group), words
        # None where the fit had no row of the group: the constants on all rows have not seen it.
        found = shipped_without().get(group)
        return found, words if found else self._words

    def _fitted(self, group: str) -> Constants:
        # No row is of the group "", which so leaves nothing out.
        if group not in self._found:
            rows, works = self._works
            kept = [
                index
                for index, row in enumerate(rows)
                if group not in (f"model {row.model}", f"source {row.source}")
            ]
            if not kept:
                raise NotSimulatedError(f"nothing is left to fit on without {group}")
            measured = np.array([rows[index].measured for index in kept], dtype=float)
            self._found[group] = fit([works[index] for index in kept], measured)
        return self._found[group]

    @cached_property
    def _works(self) -> tuple[list[LlmRow], list[Any]]:
        rows = fitted_rows(self._source)
        if not rows:
            raise DpsimError("--fit-on must have rows of quality ok that dpsim simulates")
        return rows, works_of(rows, None, lambda done: self._progress("fitting", done, len(rows)))


@cache
def shipped_without() -> Mapping[str, Constants]:
    """The shipped constants without each model and each source, as the refit has written them."""
    text = files("validate.published.llm").joinpath("left_out.json").read_text(encoding="utf-8")
    return {group: Constants(values, {}) for group, values in json.loads(text).items()}


class _Steps:
    """Rows through the engine, calibrated on the first row of their case where ``bases`` has it."""

    def __init__(
        self, folder: Path, fits: _Fits, seen: np.typing.NDArray[np.bool_], bases: Sequence[LlmRow]
    ) -> None:
        self._folder = folder
        self._fits = fits
        self._seen = seen
        self._scales: dict[str, float] = {}
        self._bases: dict[str, list[LlmRow]] = {}
        for row in bases:
            if row.measured is not None:
                self._bases.setdefault(row.case_id, []).append(row)

    def scored(self, row: LlmRow, line: int, identity: Mapping[str, str]) -> LlmStep:
        """The row beside its prediction; raises NotSimulatedError for rows without a step time."""
        if row.measured is None:
            raise NotSimulatedError("step time not stated")
        constants, words = self._constants(row)
        job = job_of(scenario_of(row, self._folder), constants)
        base = self._base(row)
        naive = None
        # A row is never predicted from one that is as large, or itself.
        if base is not None and base.gpus < row.gpus:
            job = job.scaled(self._scale(base))
            words = f"{words}, compute scaled to {base.row_id}"
            assert base.measured is not None
            naive = base.measured * row.tokens_per_gpu / base.tokens_per_gpu
        status, reason = self._status(row, base)
        use = memory_use(job.scenario, job.model)
        measured_memory = None if row.memory_gb is None else row.memory_gb * 1e9
        return LlmStep(
            line,
            identity,
            step_of(job),
            row.measured,
            words,
            status,
            tuple(_groups(row)),
            reason=reason,
            network=assumed_network(row),
            naive=naive,
            memory=(use.held.total, measured_memory),
            fits=use.fits,
            fused=row.flash,
            doubt=compute_doubt(job),
        )

    def _constants(self, row: LlmRow) -> tuple[Constants | None, str]:
        return self._fits.without(group_of(row)) if self._seen[row.index] else self._fits.whole()

    def _base(self, row: LlmRow) -> LlmRow | None:
        """The known row of the case: of those with the fewest GPUs the one most like the row."""
        known = self._bases.get(row.case_id, [])
        if not known:
            return None
        fewest = min(other.gpus for other in known)

        # Another batch changes what a kernel reaches; more passes only repeat the same.
        def unlike(other: LlmRow) -> tuple[bool, bool]:
            return other.micro_batch != row.micro_batch, other.passes != row.passes

        return min((other for other in known if other.gpus == fewest), key=unlike)

    def _scale(self, base: LlmRow) -> float:
        """What makes the engine take as long as was measured there."""
        if base.row_id not in self._scales:
            job = job_of(scenario_of(base, self._folder), self._constants(base)[0])
            assert base.measured is not None
            self._scales[base.row_id] = scale_to(job, base.measured)
        return self._scales[base.row_id]

    def _status(self, row: LlmRow, base: LlmRow | None) -> tuple[Status, str | None]:
        status, reason = by_quality(row.quality)
        if reason is not None:
            return status, reason
        # Rows without a smaller known one are what is known: nothing is predicted there.
        if self._bases and (base is None or base.gpus >= row.gpus):
            return "fitted on", None
        return "counted", None


def _groups(row: LlmRow) -> list[str]:
    size = next((name for most, name in _SIZES if row.params < most), "15 G and more")
    return [
        f"source {row.source}",
        f"gpu {row.gpu.name}",
        f"parameters {size}",
        f"checkpointing {row.checkpoint}",
        f"gpus {row.gpus}",
        f"precision {row.precision}",
        "beyond one node" if row.nodes > 1 else "one node",
    ]
