"""One round of a schedule, ready to run once or many times.

If the ranks form rings, many runs are computed at once where that is exact; otherwise round by
round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.budget import check
from dpsim.network.rounds.critical_links import CriticalLinks
from dpsim.network.rounds.cycles import Cycles

if TYPE_CHECKING:
    from dpsim.network.rounds.compiled_rings import CompiledRings

# Ranks from which a compiled loop is used.
_MANY = 32_768
_STEADY_CHECK = 64  # rounds between two checks whether every rank advances by the same step


@dataclass(frozen=True, eq=False)
class TimedRound:
    """One round, ready to run ``rounds`` times.

    ``seconds`` is per transfer; ``overhead`` and ``reduction`` are per rank, in s.
    """

    source: IntArray
    destination: IntArray
    seconds: FloatArray
    overhead: FloatArray
    reduction: FloatArray
    cycles: Cycles | None
    rounds: int = 1

    def step(self, ready: FloatArray) -> FloatArray:
        """Return when each rank that is ready at ``ready`` has done this round."""
        # A rank posts all of its messages before any of them starts, so overheads add up (LogP).
        posted = ready + self.overhead
        ends = np.maximum(posted[self.source], posted[self.destination]) + self.seconds
        finished = ready.copy()
        np.maximum.at(finished, self.destination, ends)
        np.maximum.at(finished, self.source, ends)
        return finished + self.reduction

    def all(self, ready: FloatArray) -> FloatArray:
        """Return when each rank has done all rounds; in one go if that is exact."""
        cycles = self.cycles
        # The delay of the latest rank spreads by one rank per round. Until it has reached all
        # ranks, no shortcut is exact.
        if cycles is None or self.rounds < cycles.longest - 1:
            return self.each(ready)
        if self._seconds_per_round is not None:
            latest = cycles.most(ready[self.source])
            ends = latest + self.rounds * self._seconds_per_round
            finished = ready.copy()
            finished[self.source] = ends[cycles.of_sender]
            return finished
        if self._critical is not None:
            return self._critical.finish(ready)
        return self.each(ready)

    @cached_property
    def _seconds_per_round(self) -> FloatArray | None:
        """Seconds of a round in each cycle, None if its links are not equally slow.

        All ranks of a cycle end that many rounds after its latest one, once the delay has reached
        all of them, which takes one round fewer than the cycle has ranks.
        """
        assert self.cycles is not None
        step = self.overhead[self.source] + self.seconds + self.reduction[self.destination]
        slowest = self.cycles.most(step)
        faster = step < slowest[self.cycles.of_sender] * (1 - 1e-13)
        return None if np.any(faster) else slowest

    @cached_property
    def _critical(self) -> CriticalLinks | CompiledRings | None:
        """The cycles' critical links, None if computing with these is not exact.

        Only for ranks with equal overhead and reduction.
        """
        order = None if self.cycles is None else self.cycles.in_order
        if order is None:
            return None
        paid = self.overhead[order] + self.reduction[order]
        if np.any(paid != paid[:, :1]):
            return None
        seconds = np.zeros(len(self.overhead))
        seconds[self.source] = self.seconds
        links = CriticalLinks.of(order, seconds[order], paid[:, 0], self.rounds)
        return links if links is None or order.size < _MANY else _compiled(links)

    def each(self, ready: FloatArray) -> FloatArray:
        """Run all rounds one by one.

        Stops early once every rank advances by the same step each round, because that continues.
        """
        if self.rounds == 1:
            return self.step(ready)
        step = _permutation_step(self) or self.step
        ready = ready.copy()
        done = 0
        while done < self.rounds:
            check()
            # The check costs as much as a round, so it is done once in many.
            for _ in range(min(_STEADY_CHECK, self.rounds - done) - 1):
                ready = step(ready)
                done += 1
            before = ready.copy()
            ready = step(ready)
            done += 1
            advance = ready - before
            # Two units in the last place: each of the two times may be off by one.
            rounding = 4e-16 * np.abs(ready).max()
            if np.ptp(advance) <= rounding:
                return np.asarray(ready + (self.rounds - done) * advance.mean())
        return ready


def _compiled(links: CriticalLinks) -> CriticalLinks | CompiledRings:
    """Return the compiled version, if it is available."""
    from dpsim.network.kernel import kernel
    from dpsim.network.rounds.compiled_rings import CompiledRings

    loops = kernel()
    return links if loops is None else CompiledRings(loops, links)


def _permutation_step(timed: TimedRound) -> Callable[[FloatArray], FloatArray] | None:
    """Return an in-place `TimedRound.step` without scattered writes, several times as fast.

    For patterns in which every rank sends once and receives once; None for others.
    """
    ranks = len(timed.overhead)
    if timed.cycles is None or len(timed.source) != ranks:
        return None
    order = np.argsort(timed.source)
    successor = timed.destination[order]
    seconds = timed.seconds[order]
    predecessor = np.argsort(successor)
    overhead, reduction = timed.overhead, timed.reduction
    pays, reduces = bool(overhead.any()), bool(reduction.any())
    ends, received = np.empty(ranks), np.empty(ranks)

    def step(ready: FloatArray) -> FloatArray:
        if pays:
            np.add(ready, overhead, out=ready)
        # Mode "clip" avoids a buffer in numpy; no index is out of range.
        ready.take(successor, out=ends, mode="clip")
        np.maximum(ends, ready, out=ends)
        np.add(ends, seconds, out=ends)
        ends.take(predecessor, out=received, mode="clip")
        np.maximum(ends, received, out=ready)
        return np.add(ready, reduction, out=ready) if reduces else ready

    return step
