"""Time schedules as fluid flows that share links max-min fairly, in SimPy: exact under contention.

The rules are those of `dpsim.network.rounds.rounds`: a rank begins a round when its transfers of
the previous round are done, pays its overhead for each message, and a transfer starts when both
ends have begun. In contrast to rounds, rates change with every start and end of any flow, so ranks
that are rounds apart, other collectives and background traffic share links realistically.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.collectives import Round, Schedule
from dpsim.network.flows.equal_transfers import by_value
from dpsim.network.flows.shared_network import SharedNetwork
from dpsim.network.outcome import MessageCosts, OnRanks, Outcome
from dpsim.topology import Routes


class CollectiveRun:
    """A running collective.

    Rank i of ``schedule`` is rank ``ends[i]`` of the network. ``leave``, if given, is called with
    ranks of the schedule when they finish.
    """

    def __init__(
        self,
        shared: SharedNetwork,
        schedule: Schedule,
        ends: IntArray,
        nbytes: int,
        costs: MessageCosts,
        itemsize: int,
        leave: OnRanks | None = None,
    ) -> None:
        self.shared = shared
        self.ends = ends
        self.env = shared.env
        self.fluid = shared.fluid
        self.network = shared.network
        self.costs = costs
        self.schedule = schedule
        self.chunking = schedule.chunking(nbytes, itemsize)
        self.ranks = schedule.ranks
        self.running = self.ranks
        self.finishes = np.zeros(self.ranks)
        self.loads = np.zeros(len(shared.network.capacities) + 1)  # the last is for -1, no link
        self._rounds = self.schedule.each_round()
        self._under_way: list[_RoundUnderWay | None] = []
        self._leave = leave

    def run(self, starts: FloatArray) -> Outcome:
        """Run it without other collectives; ranks enter at ``starts`` (s)."""
        self.enter_at(starts)
        # Not until the event queue is empty, because background flows never end.
        while self.running:
            self.env.step()
        return self.outcome()

    def enter_at(self, starts: FloatArray) -> None:
        """Let every rank enter at its time in ``starts`` (s)."""
        for start, ranks in by_value(starts):
            begin = partial(self.enter_after, 0.0, 0, ranks)
            self.shared.after(start - self.shared.begin, begin)

    def enter(self, ranks: IntArray) -> None:
        """Let ``ranks`` enter now."""
        self.enter_after(0.0, 0, ranks)

    def outcome(self) -> Outcome:
        """Return when each rank finished, and the loads of the links."""
        return Outcome(self.shared.begin + self.finishes, self.loads[:-1])

    def enter_after(self, delay: float, number: int, ranks: IntArray) -> None:
        """Let ``ranks`` begin round ``number`` after ``delay`` seconds.

        Ranks without transfers in it continue with the next round at once.
        """
        while len(ranks):
            current = self._round(number)
            if current is None:
                self.finishes[ranks] = self.env.now + delay
                self.running -= len(ranks)
                if self._leave is not None:
                    self.shared.after(delay, partial(self._leave, ranks))
                return
            busy = current.open[ranks] > 0
            self._post(current, delay, ranks[busy])
            ranks = ranks[~busy]
            number += 1

    def _round(self, number: int) -> _RoundUnderWay | None:
        """Return a round, laid out when the first rank reaches it; None after the last."""
        while len(self._under_way) <= number:
            transfers = next(self._rounds, None)
            if transfers is None:
                self._under_way.append(None)
            else:
                self._under_way.append(_RoundUnderWay(self, len(self._under_way), transfers))
        return self._under_way[number]

    def _post(self, current: _RoundUnderWay, delay: float, ranks: IntArray) -> None:
        overheads = current.messages[ranks] * self.costs.overhead
        waits = np.asarray(delay + overheads, dtype=np.float64)
        # Ranks that post together start together, so their transfers go into one solve.
        for wait, places in by_value(waits):
            post = partial(current.post, ranks[places])
            if wait == 0:
                post()
            else:
                self.shared.after(wait, post)

    def leave(self, current: _RoundUnderWay, ranks: IntArray) -> None:
        """Let ``ranks``, whose transfers of a round are done, reduce and begin the next round."""
        for wait, places in by_value(current.reduction[ranks]):
            self.enter_after(wait, current.number + 1, ranks[places])


class _RoundUnderWay:
    """A round: which ranks have posted messages, and how many open transfers each has."""

    def __init__(self, run: CollectiveRun, number: int, transfers: Round) -> None:
        self.run = run
        self.number = number
        self.source, self.destination = transfers.source, transfers.destination
        sizes = run.chunking.nbytes(transfers.chunk, transfers.count)
        self.nbytes = sizes.astype(np.float64)

        # The ranks' numbers in the network.
        self.ends = run.ends[self.source], run.ends[self.destination]
        self.routes = run.network.routes(*self.ends)
        np.add.at(run.loads, self.routes.links, self.nbytes[:, None])

        self.messages = np.bincount(self.source, minlength=run.ranks)
        self.open = self.messages + np.bincount(self.destination, minlength=run.ranks)
        to_reduce = self.nbytes * transfers.reduce
        received = np.bincount(self.destination, to_reduce, minlength=run.ranks)
        self.reduction = np.asarray(received * run.costs.gamma, dtype=np.float64)

        self._posted = np.zeros(run.ranks, dtype=bool)
        self._detours: dict[int, IntArray] = {}  # the links of transfers that were rerouted
        self._by_rank: tuple[IntArray, IntArray] | None = None

    def post(self, ranks: IntArray) -> None:
        """Mark ``ranks`` as ready, and start their transfers whose other end is ready too."""
        self._posted[ranks] = True
        touched = self._transfers_of(ranks)
        both_posted = self._posted[self.source[touched]] & self._posted[self.destination[touched]]
        ready = touched[both_posted]
        if len(ready):
            self.run.fluid.send(
                self.routes.take(ready),
                self.nbytes[ready],
                lambda ended: self._ended(ready[ended]),
                lambda cut, left: self._reroute(ready[cut], left),
            )

    def _reroute(self, transfers: IntArray, left: float) -> Routes:
        """Return a new route for equal transfers over a cut link, with ``left`` bytes to go.

        The remaining bytes are counted as load of the new links instead of the old.
        """
        source, destination = self.ends
        # Equal transfers share one route, so the first represents all of them.
        routes = self.run.shared.detour(source[transfers[:1]], destination[transfers[:1]])
        for transfer in transfers.tolist():
            before = self._detours.get(transfer, self.routes.links[transfer])
            np.add.at(self.run.loads, before, -left)
            np.add.at(self.run.loads, routes.links[0], left)
            self._detours[transfer] = routes.links[0]
        return routes

    def _transfers_of(self, ranks: IntArray) -> IntArray:
        """Return the transfers with an end in ``ranks``, each once."""
        # For many ranks scanning every transfer is faster, for few an index by rank.
        if len(ranks) * 8 > self.run.ranks:
            among = np.zeros(self.run.ranks, dtype=bool)
            among[ranks] = True
            return np.flatnonzero(among[self.source] | among[self.destination])

        if self._by_rank is None:
            ends = np.concatenate([self.source, self.destination])
            order = np.argsort(ends, kind="stable")
            first_of_rank = np.searchsorted(ends[order], np.arange(self.run.ranks + 1))
            self._by_rank = order % len(self.source), first_of_rank
        transfers, first = self._by_rank
        found = [transfers[first[rank] : first[rank + 1]] for rank in ranks]
        return np.unique(np.concatenate(found))

    def _ended(self, transfers: IntArray) -> None:
        ends = np.concatenate([self.source[transfers], self.destination[transfers]])
        ranks, count = np.unique(ends, return_counts=True)
        self.open[ranks] -= count
        finished = ranks[self.open[ranks] == 0]
        if len(finished):
            self.run.leave(self, finished)
