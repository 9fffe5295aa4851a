"""Times a schedule as fluid flows that share links max-min fairly, in SimPy: exact under contention.

The rules are those of `dpsim.network.rounds`: a rank begins a round when its transfers of the round before are done, pays its
overhead for each message, and a transfer starts when both ends have. But rates follow every start and end of any flow, so ranks
that are rounds apart share links as they would.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import simpy

from dpsim.collectives import Round, Schedule, Split
from dpsim.network.fluid import FluidNetwork
from dpsim.network.model import Ability, CollectiveModel, MessageCosts, Outcome
from dpsim.topology.network import FloatArray, IntArray, Network, Routes


class FlowsModel(CollectiveModel):
    """A schedule on a network, timed as flows."""

    abilities = Ability.OWN_STARTS | Ability.UNEVEN_OVERLAP

    def __init__(self, schedule: Schedule, network: Network, costs: MessageCosts | None = None, *, itemsize: int = 4) -> None:
        self.schedule = schedule
        self.network = network
        self.costs = costs or MessageCosts()
        self.itemsize = itemsize

    def finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """When each rank finishes (s) that enters at ``starts`` (s, a vector over ranks), for ``nbytes`` per vector."""
        begin = float(starts.min())  # the clock starts there, so that small differences keep their digits
        run = _Run(self, self.schedule.split(nbytes, self.itemsize))
        for start in np.unique(starts):
            run.enter_after(float(start) - begin, 0, np.flatnonzero(starts == start))
        run.env.run()
        return Outcome(begin + run.finishes, run.loads[:-1])


class _Run:
    """One collective under way."""

    def __init__(self, model: FlowsModel, split: Split) -> None:
        self.network = model.network
        self.costs = model.costs
        self.split = split
        self.ranks = model.schedule.ranks
        self.env = simpy.Environment()
        self.fluid = FluidNetwork(self.env, model.network.capacities)
        self.finishes = np.zeros(self.ranks)
        self.loads = np.zeros(len(model.network.capacities) + 1)
        self._rounds = model.schedule.each_round()
        self._under_way: list[_RoundUnderWay | None] = []

    def enter_after(self, delay: float, number: int, ranks: IntArray) -> None:
        """Let ``ranks`` begin round ``number`` after ``delay`` seconds; those that do nothing in it go on to the next at once."""
        while len(ranks):
            current = self._round(number)
            if current is None:
                self.finishes[ranks] = self.env.now + delay
                return
            busy = current.open[ranks] > 0
            self._post(current, delay, ranks[busy])
            ranks = ranks[~busy]
            number += 1

    def _round(self, number: int) -> _RoundUnderWay | None:
        while len(self._under_way) <= number:
            transfers = next(self._rounds, None)
            self._under_way.append(None if transfers is None else _RoundUnderWay(self, len(self._under_way), transfers))
        return self._under_way[number]

    def _post(self, current: _RoundUnderWay, delay: float, ranks: IntArray) -> None:
        waits = np.asarray(delay + current.messages[ranks] * self.costs.overhead, dtype=np.float64)
        for wait, group in _groups(waits, ranks):
            self._later(wait, current, group)

    def _later(self, wait: float, current: _RoundUnderWay, ranks: IntArray) -> None:
        if wait == 0:
            current.post(ranks)
        else:
            self.env.timeout(wait).callbacks.append(lambda _: current.post(ranks))

    def leave(self, current: _RoundUnderWay, ranks: IntArray) -> None:
        """``ranks`` have done all their transfers of a round: they reduce what they got, then begin the next."""
        for wait, group in _groups(current.reduction[ranks], ranks):
            self.enter_after(wait, current.number + 1, group)


class _RoundUnderWay:
    """One round: which ranks have posted their messages, and how many of a rank's transfers are still open."""

    def __init__(self, run: _Run, number: int, transfers: Round) -> None:
        self.run = run
        self.number = number
        self.transfers = transfers
        self.nbytes = run.split.nbytes(transfers.chunk, transfers.count).astype(np.float64)
        self.routes = run.network.routes(transfers.source, transfers.destination)
        self.messages = np.bincount(transfers.source, minlength=run.ranks)
        self.open = self.messages + np.bincount(transfers.destination, minlength=run.ranks)
        received = np.bincount(transfers.destination, self.nbytes * float(transfers.reduce), minlength=run.ranks)
        self.reduction = np.asarray(received * run.costs.gamma, dtype=np.float64)
        self._posted = np.zeros(run.ranks, dtype=bool)
        self._by_rank: tuple[IntArray, IntArray] | None = None
        np.add.at(run.loads, self.routes.links, self.nbytes[:, None])

    def post(self, ranks: IntArray) -> None:
        """``ranks`` are ready for their transfers; those whose other end is ready too start."""
        self._posted[ranks] = True
        touched = self._transfers_of(ranks)
        ready = touched[self._posted[self.transfers.source[touched]] & self._posted[self.transfers.destination[touched]]]
        if len(ready):
            routes = Routes(self.routes.links[ready], self.routes.latency[ready])
            self.run.fluid.send(routes, self.nbytes[ready], lambda ended: self._ended(ready[ended]))

    def _transfers_of(self, ranks: IntArray) -> IntArray:
        """The transfers with an end in ``ranks``, each once."""
        if len(ranks) * 8 > self.run.ranks:
            among = np.zeros(self.run.ranks, dtype=bool)
            among[ranks] = True
            return np.flatnonzero(among[self.transfers.source] | among[self.transfers.destination])
        if self._by_rank is None:
            ends = np.concatenate([self.transfers.source, self.transfers.destination])
            order = np.argsort(ends, kind="stable")
            self._by_rank = (order % len(self.transfers.source), np.searchsorted(ends[order], np.arange(self.run.ranks + 1)))
        transfers, first = self._by_rank
        return np.unique(np.concatenate([transfers[first[rank] : first[rank + 1]] for rank in ranks]))

    def _ended(self, transfers: IntArray) -> None:
        ends = np.concatenate([self.transfers.source[transfers], self.transfers.destination[transfers]])
        ranks, count = np.unique(ends, return_counts=True)
        self.open[ranks] -= count
        through = ranks[self.open[ranks] == 0]
        if len(through):
            self.run.leave(self, through)


def _groups(values: FloatArray, ranks: IntArray) -> Iterator[tuple[float, IntArray]]:
    """Ranks of equal value together."""
    for value in np.unique(values):
        yield float(value), ranks[values == value]
