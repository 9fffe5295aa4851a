"""The calls of a step, divided among its passes for the vector engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.engine.calls import StagedCall
from dpsim.workload import Program

# A call with the calls that follow it on other communicators, and a row of such chains.
Chain = tuple[StagedCall, ...]
Row = tuple[Chain, ...]


def _rows(calls: Iterable[StagedCall]) -> tuple[Row, ...]:
    """Return ``calls`` in order: the slices of a gradient in one row, other calls alone."""
    chains: list[list[StagedCall]] = []
    for call in calls:
        if call.follows:
            chains[-1].append(call)
        else:
            chains.append([call])
    return tuple(tuple(map(tuple, row)) for _, row in groupby(chains, _row_key))


def _row_key(calls: list[StagedCall]) -> tuple[object, ...]:
    """Return a key that is equal for the slices of one gradient."""
    first = calls[0]
    if first.takes_encoding or first.lag:
        return (id(first),)
    stages = [(call.group, *[name for name, _ in call.stages]) for call in calls]
    return first.ready, first.needed, stages


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The calls of a step: by the pass that triggers them, then those after the optimiser's step.

    ``repeats[p]``: how many passes directly after p send the same as p. ``marks``: positions whose
    times are read after the clocks have passed them. Decoding times are in seconds on each kind of
    GPU; None for no time.
    """

    gradients: tuple[StagedCall, ...]
    models: tuple[Row, ...]
    passes: tuple[tuple[Row, ...], ...]
    repeats: tuple[int, ...]
    marks: frozenset[int]
    decode_gradients: FloatArray | None
    decode_models: FloatArray | None

    @classmethod
    def of(cls, program: Program, calls: tuple[StagedCall, ...]) -> StepPlan:
        """Return the plan of a step's calls, given in order, divided among its passes."""
        gradients = tuple(call for call in calls if call.ready <= program.end)
        models = calls[len(gradients) :]
        decode_gradients, decode_models = _decoding(gradients), _decoding(models)
        passes: list[list[StagedCall]] = [[] for _ in range(program.passes)]
        for call in gradients:
            passes[program.pass_of(call.ready)].append(call)
        equal = [
            len(one) == len(other)
            and all(mine.repeats(its, program) for mine, its in zip(one, other, strict=True))
            for one, other in pairwise(passes)
        ]
        # From the end: an equal pass has one more repeat after it than the pass that follows.
        repeats = [0]
        for same in reversed(equal):
            repeats.append(repeats[-1] + 1 if same else 0)
        # Mark calls that others overtake, and the last gradient.
        furthest, marks = 0, {gradients[-1].ready} if gradients else set()
        for call in calls:
            if call.ready < furthest:
                marks.add(call.ready)
            furthest = max(furthest, call.ready)
        return cls(
            gradients,
            _rows(models),
            tuple(_rows(each) for each in passes),
            tuple(reversed(repeats)),
            frozenset(marks),
            decode_gradients,
            decode_models,
        )


def _decoding(calls: tuple[StagedCall, ...]) -> FloatArray | None:
    """Return seconds to decode the calls that arrived, per kind of GPU; None for no time."""
    # Lagging calls have not arrived.
    arrived = [call.decode for call in calls if not call.lag]
    seconds = sum(arrived, start=np.zeros(1))
    return seconds if seconds.any() else None
