"""A compiled loop over all rounds of a collective without repetition, exact to the last bit."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray
from dpsim.collectives import Chunking, Schedule
from dpsim.network.kernel import kernel
from dpsim.network.rounds.timed_round import TimedRound

_MOST_LAID_OUT = 1 << 20  # numbers per collective


class _Chain(ctypes.Structure):
    """The structure `Chain` of ``chain.c``, field by field."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rounds", "ranks")),
        *((name, ctypes.c_void_p) for name in ("first", "source", "destination", "seconds")),
        *((name, ctypes.c_void_p) for name in ("overhead", "reduction", "room")),
    )


class RoundsInChain:
    """All rounds of ``schedule``, laid out for the loop.

    ``timed_round`` returns a round by its phase, its number in the phase, and the size.
    """

    def __init__(
        self, schedule: Schedule, timed_round: Callable[[int, int, Chunking], TimedRound]
    ) -> None:
        self._schedule = schedule
        self._timed_round = timed_round
        self._laid_out: dict[int, _LaidOut | None] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the layouts, whose pointers are invalid in another process."""
        return {**self.__dict__, "_laid_out": {}}

    def step(self, chunking: Chunking, ready: FloatArray) -> FloatArray | None:
        """Return when each rank that is ready at ``ready`` (s) has finished.

        None if the rounds are too large to lay out, or the compiled loops are not available.
        """
        size = chunking.total
        if size not in self._laid_out:
            self._laid_out[size] = self._lay_out(chunking)
        chain = self._laid_out[size]
        return None if chain is None else chain.step(ready)

    def _lay_out(self, chunking: Chunking) -> _LaidOut | None:
        loops, schedule = kernel(), self._schedule
        rounds = sum(phase.rounds for phase in schedule.phases)
        numbers = rounds * schedule.ranks + schedule.transfers
        if loops is None or numbers > _MOST_LAID_OUT:
            return None
        timed = [
            self._timed_round(number, turn, chunking)
            for number, phase in enumerate(schedule.phases)
            for turn in range(phase.rounds)
        ]
        return _LaidOut(loops["chain_step"], timed)


class _LaidOut:
    """A sequence of rounds, for one size."""

    def __init__(self, function: Callable[..., Any], rounds: list[TimedRound]) -> None:
        self._step = function
        self._step.argtypes = [ctypes.c_void_p] * 2  # type: ignore[attr-defined]
        self._kept: list[NDArray[Any]] = []  # arrays that the loop holds pointers to
        ranks = len(rounds[0].overhead)
        self._chain = _Chain(len(rounds), ranks)
        self._at = ctypes.byref(self._chain)
        # Where each round's transfers begin in the concatenation of all rounds.
        first = np.cumsum([0, *(len(each.source) for each in rounds)])
        self._keep("first", first, np.int64)
        for name, kind in (
            ("source", np.int32),
            ("destination", np.int32),
            ("seconds", np.float64),
        ):
            self._keep(name, np.concatenate([getattr(each, name) for each in rounds]), kind)
        for name in ("overhead", "reduction"):
            self._keep(name, np.concatenate([getattr(each, name) for each in rounds]), np.float64)
        self._keep("room", np.empty(ranks), np.float64)

    def _keep(self, name: str, array: NDArray[Any], kind: type) -> None:
        kept: NDArray[Any] = np.ascontiguousarray(array, dtype=kind)
        self._kept.append(kept)
        setattr(self._chain, name, kept.ctypes.data)

    def step(self, ready: FloatArray) -> FloatArray:
        """Return when each rank that is ready at ``ready`` (s) has finished."""
        finished = np.array(ready, dtype=np.float64)
        self._step(self._at, finished.ctypes.data)
        return finished
