"""Times a schedule a round at a time with vectors over ranks: fast enough for 100,000 GPUs.

Rates are fixed for a round by max-min fairness over its pattern, solved once per distinct pattern. A rank begins a round when its
transfers of the round before are done; it pays its overhead for each message that it sends in the round, and a transfer starts
when both ends have done so (rendezvous). Channels are vectors side by side, which share links as if in lockstep. Exact where rounds
do not overlap unevenly; wrong where ranks that are skewed by more than a round share links: `dpsim.network.flows` is for those. In
a phase that repeats without a window every message counts as the largest that goes its way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpsim.collectives import Phase, Round, Schedule, Split
from dpsim.collectives.traffic import bytes_over_turns
from dpsim.network.cycles import Cycles, cycles_of
from dpsim.network.maxmin import max_min_rates
from dpsim.network.model import Ability, CollectiveModel, MessageCosts, Outcome
from dpsim.topology.network import FloatArray, IntArray, Network

_KEPT = 1 << 22  # numbers kept of rounds whose pattern moves, at most: 32 MiB an array
_STEADY_CHECK = 64  # rounds between two looks at whether the recursion has become a constant step


@dataclass(frozen=True, slots=True, eq=False)
class _Pattern:
    """One round's transfers with the latency (s) and the rate (B/s) of each, and the cycles that they form, if they do.

    ``source`` and ``destination`` are places: a rank in a channel.
    """

    transfers: Round
    source: IntArray
    destination: IntArray
    latency: FloatArray
    rate: FloatArray
    cycles: Cycles | None


@dataclass(frozen=True, slots=True, eq=False)
class _Timed:
    """One round ready to run: per transfer its seconds, per place its overhead and reduction in seconds."""

    source: IntArray
    destination: IntArray
    seconds: FloatArray
    overhead: FloatArray
    reduction: FloatArray
    cycles: Cycles | None

    def step(self, ready: FloatArray) -> FloatArray:
        """When each place has done this round that was ready for it at ``ready``."""
        posted = ready + self.overhead
        ends = np.maximum(posted[self.source], posted[self.destination]) + self.seconds
        through = ready.copy()
        np.maximum.at(through, self.destination, ends)
        np.maximum.at(through, self.source, ends)
        return through + self.reduction


class RoundsModel(CollectiveModel):
    """A schedule on a network, timed by rounds; ``collapse=False`` runs every round even where a shortcut is exact."""

    abilities = Ability.OWN_STARTS

    def __init__(
        self,
        schedule: Schedule,
        network: Network,
        costs: MessageCosts | None = None,
        *,
        itemsize: int = 4,
        collapse: bool = True,
    ) -> None:
        self.schedule = schedule
        self.network = network
        self.costs = costs or MessageCosts()
        self.itemsize = itemsize
        self.collapse = collapse
        self._patterns: dict[tuple[int, int], _Pattern] = {}
        self._timed: dict[tuple[int, int, int], _Timed] = {}
        self._loads: dict[int, FloatArray] = {}

    def finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """When each rank finishes (s) that enters at ``starts`` (s, a vector over ranks), for ``nbytes`` per vector."""
        split = self.schedule.split(nbytes, self.itemsize)
        begin = float(starts.min())  # the clock starts there, so that small differences keep their digits
        ready = np.tile(starts - begin, self.schedule.channels)
        for number, phase in enumerate(self.schedule.phases):
            ready = self._phase(number, phase, split, ready)
        return Outcome(begin + ready.reshape(-1, len(starts)).max(axis=0), self.loads(nbytes))

    def loads(self, nbytes: int) -> FloatArray:
        """Bytes that each capacity carries during the collective."""
        if nbytes not in self._loads:
            self._loads[nbytes] = self._count_loads(self.schedule.split(nbytes, self.itemsize))
        return self._loads[nbytes]

    def _phase(self, number: int, phase: Phase, split: Split, ready: FloatArray) -> FloatArray:
        if not phase.steady:
            for turn in range(phase.rounds):
                ready = self._round(number, turn, split).step(ready)
            return ready
        timed = self._round(number, 0, split)
        if self.collapse and (collapsed := _collapsed(timed, phase.rounds, ready)) is not None:
            return collapsed
        return timed.step(ready) if phase.rounds == 1 else _repeat(timed, phase.rounds, ready)

    def _round(self, number: int, turn: int, split: Split) -> _Timed:
        """Round ``turn`` of phase ``number``, kept for the next collective of the same size where that is not too much."""
        phase = self.schedule.phases[number]
        key = (number, turn, split.total)
        if key in self._timed:
            return self._timed[key]
        pattern = self._patterns.get((number, turn)) or self._pattern(phase, turn)
        timed = self._sized(pattern, phase, split)
        if phase.steady or phase.turns * len(phase.source) <= _KEPT:
            self._patterns[number, turn] = pattern
            if len(self._timed) * self.schedule.places < _KEPT:
                self._timed[key] = timed
        return timed

    def _pattern(self, phase: Phase, turn: int) -> _Pattern:
        transfers = phase.round(turn)
        routes = self.network.routes(transfers.source, transfers.destination)
        rate = max_min_rates(routes.links, self.network.capacities)
        source, destination = transfers.places(self.schedule.ranks)
        cycles = cycles_of(source, destination, self.schedule.places)
        return _Pattern(transfers, source, destination, routes.latency, rate, cycles)

    def _sized(self, pattern: _Pattern, phase: Phase, split: Split) -> _Timed:
        """The round with this phase's message sizes; in repeated turns each message counts as the largest that goes its way."""
        transfers = pattern.transfers
        repeated = phase.rounds > 1 and phase.window is None
        chunk = phase.chunk.longest() if repeated else transfers.chunk
        nbytes = split.nbytes(chunk, transfers.count)
        places = self.schedule.places
        messages = np.bincount(pattern.source, minlength=places).astype(np.float64)
        reduced = np.bincount(pattern.destination, nbytes * transfers.reduce, places).astype(np.float64)
        return _Timed(
            pattern.source,
            pattern.destination,
            pattern.latency + nbytes / pattern.rate,
            messages * self.costs.overhead,
            reduced * self.costs.gamma,
            pattern.cycles,
        )

    def _count_loads(self, split: Split) -> FloatArray:
        capacities = len(self.network.capacities)
        loads = np.zeros(capacities + 1)  # the last is for -1, no link
        for phase in self.schedule.phases:
            if phase.destination.shift == 0:
                routes = self.network.routes(phase.source, phase.destination.at(0))
                np.add.at(loads, routes.links, bytes_over_turns(phase, split)[:, None])
                continue
            for number in range(phase.rounds):
                transfers = phase.round(number)
                routes = self.network.routes(transfers.source, transfers.destination)
                np.add.at(loads, routes.links, split.nbytes(transfers.chunk, transfers.count)[:, None])
        return loads[:capacities]


def _collapsed(timed: _Timed, rounds: int, ready: FloatArray) -> FloatArray | None:
    """All ``rounds`` in one line where that is exact, else None.

    Where the ranks of a cycle of the pattern pass messages of equal cost, everyone in it ends at max(ready) + rounds * step once
    the latest has been heard of by all, which takes one round fewer than the cycle has ranks.
    """
    cycles = timed.cycles
    if cycles is None or rounds < cycles.longest - 1:
        return None
    sender = timed.source
    step = timed.overhead[sender] + timed.seconds + timed.reduction[timed.destination]
    slowest = cycles.most(step)
    if np.any(step < slowest[cycles.of_sender] * (1 - 1e-13)):
        return None
    latest = cycles.most(ready[sender])
    finished = ready.copy()
    finished[sender] = (latest + rounds * slowest)[cycles.of_sender]
    return finished


def _repeat(timed: _Timed, rounds: int, ready: FloatArray) -> FloatArray:
    """The same round ``rounds`` times; stops early once every rank advances by the same step each round, for that goes on."""
    step = _permutation_step(timed) or timed.step
    ready = ready.copy()
    done = 0
    while done < rounds:
        for _ in range(min(_STEADY_CHECK, rounds - done) - 1):
            ready = step(ready)
            done += 1
        before = ready.copy()
        ready = step(ready)
        done += 1
        advance = ready - before
        if np.ptp(advance) <= 4e-16 * np.abs(ready).max():
            return np.asarray(ready + (rounds - done) * advance.mean())
    return ready


def _permutation_step(timed: _Timed) -> Callable[[FloatArray], FloatArray] | None:
    """`_Timed.step` in place and without scattered writes, for patterns in which every rank sends once and hears once."""
    ranks = len(timed.overhead)
    if timed.cycles is None or len(timed.source) != ranks:
        return None
    order = np.argsort(timed.source)
    successor, seconds = timed.destination[order], timed.seconds[order]
    predecessor = np.argsort(successor)
    overhead, reduction = timed.overhead, timed.reduction
    pays, reduces = bool(overhead.any()), bool(reduction.any())
    ends, heard = np.empty(ranks), np.empty(ranks)

    def step(ready: FloatArray) -> FloatArray:
        if pays:
            np.add(ready, overhead, out=ready)
        np.take(ready, successor, out=ends, mode="clip")
        np.maximum(ends, ready, out=ends)
        np.add(ends, seconds, out=ends)
        np.take(ends, predecessor, out=heard, mode="clip")
        np.maximum(ends, heard, out=ready)
        return np.add(ready, reduction, out=ready) if reduces else ready

    return step
