"""Time a schedule round by round with vectors over ranks: fast enough for 100,000 GPUs.

Rates are fixed for a round by max-min fairness over its pattern, solved once per distinct pattern.
A rank begins a round when its transfers of the previous round are done; it pays its overhead for
each message that it sends in the round, and a transfer starts when both ends have done so
(rendezvous). Exact if rounds do not overlap unevenly; wrong if ranks that are skewed by more than a
round share links (use `dpsim.network.flows.flows`). In a phase that repeats without a window every
message counts as the largest that its rank ever sends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.budget import check
from dpsim.collectives import Chunking, Phase, Round, Schedule
from dpsim.network.collective_models import ScheduleModel, most_hops, transfer_bytes
from dpsim.network.maxmin import max_min_rates
from dpsim.network.outcome import MessageCosts, Outcome
from dpsim.network.rounds.cycles import Cycles, cycles_of
from dpsim.network.rounds.timed_round import TimedRound
from dpsim.topology import Network

if TYPE_CHECKING:
    from dpsim.network.rounds.crowded_round import CrowdedRound
    from dpsim.network.rounds.rounds_in_chain import RoundsInChain

_SMALL = 4096  # ranks up to which single rounds are run one by one
# Seconds of such a round by numpy, and total seconds of a model from which the C loop is used.
_SECONDS_A_ROUND = 2e-5
_MUCH = 0.05
_CROWD = 1 << 20  # transfers of one round from which they are processed in blocks
_BYTES_IN_A_CROWD, _BYTES_A_HOP_IN_A_CROWD = 24.0, 4.0  # per transfer
# The most numbers cached of rounds whose pattern changes: 32 MiB per array.
_KEPT = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class _Pattern:
    """One round's transfers with the latency (s) and the rate (B/s) of each.

    ``cycles`` are the cycles that the transfers form, if they do.
    """

    transfers: Round
    short_links: NDArray[np.int32]  # hundreds of megabytes for a million GPUs
    latency: FloatArray
    rate: FloatArray
    cycles: Cycles | None

    @property
    def links(self) -> IntArray:
        """The links of each transfer, (transfers, hops)."""
        return self.short_links.astype(np.int64)


class RoundsModel(ScheduleModel):
    """A schedule on a network, timed by rounds.

    ``collapse=False`` runs every round even if a shortcut is exact.
    """

    def __init__(
        self,
        schedule: Schedule,
        network: Network,
        costs: MessageCosts | None = None,
        *,
        itemsize: int = 4,
        collapse: bool = True,
    ) -> None:
        super().__init__(schedule, network, costs, itemsize=itemsize)
        self.collapse = collapse
        self._patterns: dict[tuple[int, int], _Pattern] = {}
        self._timed: dict[tuple[int, int, int], TimedRound] = {}
        self._crowds: dict[int, CrowdedRound] = {}
        self._loads: dict[int, FloatArray] = {}
        self._spent = 0.0  # estimated s of numpy in work that a compiled loop could do

    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """Return when each rank that enters at ``starts`` finishes (s, vectors over ranks).

        ``nbytes`` is the size of each rank's vector.
        """
        return Outcome(self.ends_of_rounds(starts, nbytes), self.loads(nbytes))

    def ends_of_rounds(self, starts: FloatArray, nbytes: int) -> FloatArray:
        """Return when each rank finishes its rounds (s), without the bound of link loads."""
        chunking = self.schedule.chunking(nbytes, self.itemsize)
        begin = float(starts.min())  # the clock's zero, so that small differences keep their digits
        return np.asarray(begin + self._phases(chunking, starts - begin))

    def loads(self, nbytes: int) -> FloatArray:
        """Return the bytes that each capacity carries during the collective."""
        if nbytes not in self._loads:
            self._loads[nbytes] = self._count_loads(self.schedule.chunking(nbytes, self.itemsize))
        return self._loads[nbytes]

    def _phases(self, chunking: Chunking, ready: FloatArray) -> FloatArray:
        """Return when each rank that is ready at ``ready`` (s) has done all phases."""
        self._spent += self._single_rounds * _SECONDS_A_ROUND
        if self._spent >= _MUCH:
            chained = self._chain.step(chunking, ready)
            if chained is not None:
                return chained
        for number, phase in enumerate(self.schedule.phases):
            ready = self._phase(number, phase, chunking, ready)
        return ready

    @cached_property
    def _single_rounds(self) -> int:
        """The number of rounds that a compiled loop can run: 0 if some repeat."""
        phases = self.schedule.phases
        small = self.schedule.ranks <= _SMALL
        if not small or any(phase.rounds > 1 and phase.steady for phase in phases):
            return 0
        return sum(phase.rounds for phase in phases)

    @cached_property
    def _chain(self) -> RoundsInChain:
        """The compiled loop for rounds that do not repeat."""
        from dpsim.network.rounds.rounds_in_chain import RoundsInChain

        return RoundsInChain(self.schedule, self.timed_round)

    def _phase(
        self, number: int, phase: Phase, chunking: Chunking, ready: FloatArray
    ) -> FloatArray:
        if _is_crowded(phase):
            return self._crowd(number).step(chunking, ready)
        if not phase.steady or (phase.rounds == 1 and self.schedule.ranks <= _SMALL):
            for turn in range(phase.rounds):
                check()
                ready = self.timed_round(number, turn, chunking).step(ready)
            return ready
        timed = self.timed_round(number, 0, chunking)
        return timed.all(ready) if self.collapse else timed.each(ready)

    def timed_round(self, number: int, turn: int, chunking: Chunking) -> TimedRound:
        """Return round ``turn`` of phase ``number``.

        It is cached for the next collective of the same size.
        """
        phase = self.schedule.phases[number]
        key = (number, turn, chunking.total)
        if key in self._timed:
            return self._timed[key]
        # Rates depend only on senders and receivers, so a pattern serves collectives of every size.
        pattern = self._patterns.get((number, turn)) or self._pattern(phase, turn)
        timed = self._sized(pattern, phase, chunking)
        if phase.steady or phase.turns * len(phase.source) <= _KEPT:
            self._patterns[number, turn] = pattern
            # If the cache is full, drop the newest entry: then some of several alternating sizes
            # stay cached.
            if self._timed and len(self._timed) * self.schedule.ranks >= _KEPT:
                self._timed.popitem()
            self._timed[key] = timed
        return timed

    def _crowd(self, number: int) -> CrowdedRound:
        """Return the round of phase ``number``, of very many concurrent transfers, in blocks."""
        if number not in self._crowds:
            from dpsim.network.rounds.crowded_round import CrowdedRound

            self._crowds[number] = CrowdedRound(self.schedule, number, self.network, self.costs)
        return self._crowds[number]

    def links_of(self, number: int, turn: int) -> tuple[IntArray, FloatArray]:
        """Return the links (transfers, hops) and the latency (s) of each transfer of a round."""
        pattern = self._patterns.get((number, turn))
        pattern = pattern or self._pattern(self.schedule.phases[number], turn)
        return pattern.links, pattern.latency

    def _pattern(self, phase: Phase, turn: int) -> _Pattern:
        transfers = phase.round(turn)
        # A ring's reduce-scatter and all-gather have the same pairs.
        for known in self._patterns.values():
            if _same_pairs(known.transfers, transfers):
                return replace(known, transfers=transfers)
        routes = self.network.routes(transfers.source, transfers.destination)
        rate = max_min_rates(routes.links, self.network.capacities)
        cycles = cycles_of(transfers.source, transfers.destination, self.schedule.ranks)
        return _Pattern(transfers, routes.links.astype(np.int32), routes.latency, rate, cycles)

    def _sized(self, pattern: _Pattern, phase: Phase, chunking: Chunking) -> TimedRound:
        """Return the round with this phase's message sizes.

        In repeated turns each message counts as the largest that its rank ever sends.
        """
        transfers = pattern.transfers
        # Chunks differ by at most one element. A repeated round is timed once, with the longer
        # chunks, which adds less than any measurement can resolve.
        repeated = phase.rounds > 1 and phase.window is None
        chunk = phase.chunk.longest() if repeated else transfers.chunk
        nbytes = chunking.nbytes(chunk, transfers.count)

        ranks = self.schedule.ranks
        messages = np.bincount(transfers.source, minlength=ranks).astype(np.float64)
        to_reduce = nbytes * transfers.reduce
        reduced = np.bincount(transfers.destination, to_reduce, ranks).astype(np.float64)
        return TimedRound(
            transfers.source,
            transfers.destination,
            pattern.latency + nbytes / pattern.rate,
            messages * self.costs.overhead,
            reduced * self.costs.gamma,
            pattern.cycles,
            phase.rounds if phase.steady else 1,
        )

    def _count_loads(self, chunking: Chunking) -> FloatArray:
        loads = np.zeros(len(self.network.capacities) + 1)  # the first is for -1, no link
        if not chunking.elements:
            return loads[1:]
        for number, phase in enumerate(self.schedule.phases):
            if _is_crowded(phase):
                self._crowd(number).add_loads(chunking, loads)
                continue
            if phase.destination.shift == 0:
                # The same links in every turn: one pass with the bytes of all turns.
                nbytes = phase.bytes_over_turns(chunking)
                self._add_loads(loads, self._links_of_all(number), nbytes)
                continue
            for turn in range(phase.rounds):
                check()
                transfers = phase.round(turn)
                nbytes = chunking.nbytes(transfers.chunk, transfers.count)
                links = self.network.routes(transfers.source, transfers.destination).links
                self._add_loads(loads, links, nbytes)
        return loads[1:]

    def _links_of_all(self, number: int) -> IntArray:
        """Return the links of each transfer of a phase with the same pairs in every turn."""
        phase = self.schedule.phases[number]
        if phase.steady and not phase.at_once and (number, 0) in self._patterns:
            return self._patterns[number, 0].links
        return self.network.routes(phase.source, phase.destination.at(0)).links

    def _add_loads(self, loads: FloatArray, links: IntArray, nbytes: IntArray) -> None:
        """Add the bytes of these transfers to every link of their routes."""
        # numpy adds scattered floats to floats many times faster than integers.
        carried = nbytes.astype(np.float64)
        for hop in links.T:
            np.add.at(loads, hop + 1, carried)


def round_bytes(schedule: Schedule, network: Network) -> float:
    """Return an estimate of the bytes of memory that timing the largest round takes."""
    transfers = schedule.most_at_once
    if any(_is_crowded(phase) for phase in schedule.phases):
        return transfers * (_BYTES_IN_A_CROWD + _BYTES_A_HOP_IN_A_CROWD * most_hops(network))
    return transfers * transfer_bytes(network)


def _is_crowded(phase: Phase) -> bool:
    return phase.at_once and phase.turns * len(phase.source) >= _CROWD


def _same_pairs(one: Round, other: Round) -> bool:
    """Return whether the same ranks send to the same ranks, in the same order."""
    count = len(one.source)
    # Different rounds usually differ in the first pair.
    if len(other.source) != count or (count and one.destination[0] != other.destination[0]):
        return False
    return np.array_equal(one.source, other.source) and np.array_equal(
        one.destination, other.destination
    )
