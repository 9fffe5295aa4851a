"""Times schedules as fluid flows that share links max-min fairly, in SimPy: exact under contention.

The rules are those of `dpsim.network.rounds.rounds`: a rank begins a round when its transfers of
the round before are done, pays its overhead for each message, and a transfer starts when both ends
have; in each channel a rank goes on at its own pace. But rates follow every start and end of any
flow: ranks that are rounds apart, other collectives and other traffic share links as they would.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.collectives import Round, Schedule
from dpsim.network.conditions import NO_CONDITIONS, Conditions
from dpsim.network.flows.shared_network import SharedNetwork
from dpsim.network.model import Ability, MessageCosts, Outcome, ScheduleModel
from dpsim.topology import Network, Routes


@dataclass(frozen=True, slots=True, eq=False)
class SharedJob:
    """One collective among several.

    Rank i of ``schedule`` is rank ``ranks[i]`` of the network, and enters at ``starts[i]`` (s).
    """

    schedule: Schedule
    ranks: IntArray
    starts: FloatArray
    nbytes: int


class FlowsModel(ScheduleModel):
    """A schedule on a network, timed as flows, under ``conditions``."""

    abilities = Ability.OWN_STARTS | Ability.UNEVEN_OVERLAP | Ability.CONDITIONS

    def __init__(
        self,
        schedule: Schedule,
        network: Network,
        costs: MessageCosts | None = None,
        *,
        itemsize: int = 4,
        conditions: Conditions = NO_CONDITIONS,
    ) -> None:
        super().__init__(schedule, network, costs, itemsize=itemsize)
        self.conditions = conditions

    def finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """When each rank finishes (s) that enters at ``starts`` (s, a vector over ranks), for
        ``nbytes`` per vector.

        Raises DpsimError where a cut link leaves no path.
        """
        job = SharedJob(self.schedule, np.arange(len(starts)), starts, nbytes)
        (outcome,) = finish_together(
            self.network, [job], self.costs, itemsize=self.itemsize, conditions=self.conditions
        )
        return outcome


def finish_together(
    network: Network,
    jobs: Sequence[SharedJob],
    costs: MessageCosts | None = None,
    *,
    itemsize: int = 4,
    conditions: Conditions = NO_CONDITIONS,
) -> list[Outcome]:
    """Run several collectives on one network at once; each outcome's finishes follow its job's
    ranks, its loads are its own.

    Raises DpsimError where a cut link leaves no path.
    """
    shared = SharedNetwork(network, min(float(job.starts.min()) for job in jobs), conditions)
    runs = [_Run(shared, job, costs or MessageCosts(), itemsize) for job in jobs]
    while any(run.running for run in runs):
        shared.env.step()
    return [run.outcome() for run in runs]


class _Run:
    """One collective under way; its ranks are places, a rank in a channel."""

    def __init__(
        self, shared: SharedNetwork, job: SharedJob, costs: MessageCosts, itemsize: int
    ) -> None:
        self.shared = shared
        self.job = job
        self.env, self.fluid, self.network = shared.env, shared.fluid, shared.network
        self.costs = costs
        self.schedule = job.schedule
        self.chunking = job.schedule.chunking(job.nbytes, itemsize)
        self.ranks = self.running = self.schedule.places
        self.finishes = np.zeros(self.ranks)
        self.loads = np.zeros(len(shared.network.capacities) + 1)
        self._rounds = self.schedule.each_round()
        self._under_way: list[_RoundUnderWay | None] = []
        entry = np.tile(job.starts, self.schedule.channels)
        for start in np.unique(entry):
            self._enter_later(float(start) - shared.begin, np.flatnonzero(entry == start))

    def _enter_later(self, delay: float, ranks: IntArray) -> None:
        self.env.timeout(delay).callbacks.append(lambda _: self.enter_after(0.0, 0, ranks))

    def outcome(self) -> Outcome:
        """When each rank finished, over its channels, and what the links carried."""
        ends = self.finishes.reshape(self.schedule.channels, -1).max(axis=0)
        return Outcome(self.shared.begin + ends, self.loads[:-1])

    def enter_after(self, delay: float, number: int, ranks: IntArray) -> None:
        """Let ``ranks`` begin round ``number`` after ``delay`` seconds; those that do nothing in it
        go on to the next at once.
        """
        while len(ranks):
            current = self._round(number)
            if current is None:
                self.finishes[ranks] = self.env.now + delay
                self.running -= len(ranks)
                return
            busy = current.open[ranks] > 0
            self._post(current, delay, ranks[busy])
            ranks = ranks[~busy]
            number += 1

    def _round(self, number: int) -> _RoundUnderWay | None:
        while len(self._under_way) <= number:
            transfers = next(self._rounds, None)
            self._under_way.append(
                None if transfers is None else _RoundUnderWay(self, len(self._under_way), transfers)
            )
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
        """``ranks`` have done all their transfers of a round.

        They reduce what they got, then begin the next.
        """
        for wait, group in _groups(current.reduction[ranks], ranks):
            self.enter_after(wait, current.number + 1, group)


class _RoundUnderWay:
    """One round.

    Which ranks have posted their messages, and how many of a rank's transfers are still open.
    """

    def __init__(self, run: _Run, number: int, transfers: Round) -> None:
        self.run = run
        self.number = number
        self.source, self.destination = transfers.places(run.schedule.ranks)
        self.nbytes = run.chunking.nbytes(transfers.chunk, transfers.count).astype(np.float64)
        self.ends = run.job.ranks[transfers.source], run.job.ranks[transfers.destination]
        self.routes = run.network.routes(*self.ends)
        self.messages = np.bincount(self.source, minlength=run.ranks)
        self.open = self.messages + np.bincount(self.destination, minlength=run.ranks)
        received = np.bincount(
            self.destination, self.nbytes * transfers.reduce, minlength=run.ranks
        )
        self.reduction = np.asarray(received * run.costs.gamma, dtype=np.float64)
        self._posted = np.zeros(run.ranks, dtype=bool)
        self._by_rank: tuple[IntArray, IntArray] | None = None
        np.add.at(run.loads, self.routes.links, self.nbytes[:, None])

    def post(self, ranks: IntArray) -> None:
        """``ranks`` are ready for their transfers; those whose other end is ready too start."""
        self._posted[ranks] = True
        touched = self._transfers_of(ranks)
        ready = touched[
            self._posted[self.source[touched]] & self._posted[self.destination[touched]]
        ]
        if len(ready):
            routes = Routes(self.routes.links[ready], self.routes.latency[ready])
            self.run.fluid.send(
                routes,
                self.nbytes[ready],
                lambda ended: self._ended(ready[ended]),
                lambda cut: self._around(ready[cut]),
            )

    def _around(self, transfers: IntArray) -> Routes:
        """New routes for transfers whose link has been cut."""
        source, destination = self.ends
        return self.run.shared.around(source[transfers], destination[transfers])

    def _transfers_of(self, ranks: IntArray) -> IntArray:
        """The transfers with an end in ``ranks``, each once."""
        if len(ranks) * 8 > self.run.ranks:
            among = np.zeros(self.run.ranks, dtype=bool)
            among[ranks] = True
            return np.flatnonzero(among[self.source] | among[self.destination])
        if self._by_rank is None:
            ends = np.concatenate([self.source, self.destination])
            order = np.argsort(ends, kind="stable")
            self._by_rank = (
                order % len(self.source),
                np.searchsorted(ends[order], np.arange(self.run.ranks + 1)),
            )
        transfers, first = self._by_rank
        return np.unique(
            np.concatenate([transfers[first[rank] : first[rank + 1]] for rank in ranks])
        )

    def _ended(self, transfers: IntArray) -> None:
        ends = np.concatenate([self.source[transfers], self.destination[transfers]])
        ranks, count = np.unique(ends, return_counts=True)
        self.open[ranks] -= count
        through = ranks[self.open[ranks] == 0]
        if len(through):
            self.run.leave(self, through)


def _groups(values: FloatArray, ranks: IntArray) -> Iterator[tuple[float, IntArray]]:
    """Ranks of equal value together."""
    for value in np.unique(values):
        yield float(value), ranks[values == value]
