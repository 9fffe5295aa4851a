"""Rounds, corrected by flows if transfers of different rounds may share a link.

If they never do (`rounds_stay_apart`), rounds are exact from a common start and need no correction.
Otherwise a transfer may begin on a link while one of an earlier round still uses it and shares the
link with it, which rounds do not model. The schedule is then simulated as flows once for each size,
with all ranks starting together, and each rank's finish is shifted by the difference, so that the
result is exact from a common start. With unequal starts, rounds compute the skew. Schedules of more
than `MOST_TRANSFERS` transfers are not simulated as flows, only bounded by their links
(`CollectiveModel.finish`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.budget import check
from dpsim.collectives import Phase, Schedule
from dpsim.network.collective_models import ScheduleModel
from dpsim.network.outcome import MessageCosts, Outcome
from dpsim.network.rounds.rounds import RoundsModel
from dpsim.topology import Network

MOST_TRANSFERS = 10_000  # about a second as flows
_MOST_ROUNDS = 256  # of a repeating phase; ranks that still drift then are assumed to overlap
_SAME = 1e-9  # relative: smaller overlaps are ignored


class ConfirmedRounds(ScheduleModel):
    """A schedule on a network, timed by rounds, with the times of flows from equal starts."""

    def __init__(
        self,
        schedule: Schedule,
        network: Network,
        costs: MessageCosts | None = None,
        *,
        itemsize: int = 4,
    ) -> None:
        super().__init__(schedule, network, costs, itemsize=itemsize)
        self.rounds = RoundsModel(schedule, network, costs, itemsize=itemsize)
        self._delays: dict[int, FloatArray | None] = {}

    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """Return when each rank that enters at ``starts`` (s) finishes (s)."""
        delay = self._delay_by_flows(nbytes)
        if delay is None:
            # `finish` checks the link loads, once.
            ends = self.rounds.ends_of_rounds(starts, nbytes)
            return Outcome(ends, self.rounds.loads(nbytes))
        outcome = self.rounds.finish(starts, nbytes)
        return replace(outcome, finishes=outcome.finishes + delay)

    def _delay_by_flows(self, nbytes: int) -> FloatArray | None:
        """Return the seconds by which each rank finishes later by flows.

        None if rounds are exact, or if there are too many transfers for flows.
        """
        if nbytes not in self._delays:
            phases = self.schedule.phases
            many = sum(len(phase.source) * phase.rounds for phase in phases) > MOST_TRANSFERS
            # A single round shares links with no other.
            single = self.schedule.rounds <= 1
            exact = single or many or rounds_stay_apart(self.rounds, nbytes)
            self._delays[nbytes] = None if exact else self._difference_to_flows(nbytes)
        return self._delays[nbytes]

    def _difference_to_flows(self, nbytes: int) -> FloatArray:
        from dpsim.network.flows_model import FlowsModel

        starts = np.zeros(self.schedule.ranks)
        flows = FlowsModel(self.schedule, self.network, self.costs, itemsize=self.itemsize)
        by_flows = flows.finish(starts, nbytes).finishes
        return np.asarray(by_flows - self.rounds.finish(starts, nbytes).finishes)


def rounds_stay_apart(model: RoundsModel, nbytes: int) -> bool:
    """Return whether rounds of ``nbytes`` never share a link when all ranks start at once."""
    return _RoundByRound(model, nbytes).apart


class _RoundByRound:
    """The rounds of a collective, one after the other, from a common start."""

    def __init__(self, model: RoundsModel, nbytes: int) -> None:
        self.model = model
        self.chunking = model.schedule.chunking(nbytes, model.itemsize)
        self.ready = np.zeros(model.schedule.ranks)
        # The last entry is for -1, no link.
        self.in_use_until = np.zeros(len(model.network.capacities) + 1)
        self.apart = all(
            self._phase(number, phase) for number, phase in enumerate(model.schedule.phases)
        )

    def _phase(self, number: int, phase: Phase) -> bool:
        if not phase.steady:
            return all(self._turn(number, turn) for turn in range(phase.rounds))
        for _ in range(min(phase.rounds, _MOST_ROUNDS)):
            before = self.ready
            if not self._turn(number, 0):
                return False
            advance = self.ready - before
            if np.ptp(advance) <= _SAME * float(np.abs(self.ready).max()):
                break  # all further turns equal this one, shifted in time
        else:
            # Ranks still drift apart, but pairs with links of their own never share one.
            return phase.rounds <= _MOST_ROUNDS or self._own_links(number)
        return True

    def _turn(self, number: int, turn: int) -> bool:
        """Simulate one round; return whether no earlier one was still on its links."""
        check()
        timed = self.model.timed_round(number, turn, self.chunking)
        links, latency = self.model.links_of(number, turn)
        posted = self.ready + timed.overhead
        begin = np.maximum(posted[timed.source], posted[timed.destination]) + latency
        # A message without bytes uses no link; one with bytes uses it after its latency.
        moving = timed.seconds > latency
        apart = self._are_free(links[moving], begin[moving])
        self._use(links[moving], (begin + timed.seconds - latency)[moving])
        self.ready = timed.step(self.ready)
        return apart

    def _are_free(self, links: IntArray, begin: FloatArray) -> bool:
        slack = _SAME * float(begin.max(initial=0.0))
        until = self.in_use_until[links]
        until[links < 0] = 0.0
        return bool((until <= begin[:, None] + slack).all())

    def _use(self, links: IntArray, end: FloatArray) -> None:
        for hop in links.T:
            np.maximum.at(self.in_use_until, hop, end)

    def _own_links(self, number: int) -> bool:
        """Return whether each link is crossed by at most one transfer of the pattern."""
        links, _ = self.model.links_of(number, 0)
        crossed = np.bincount(links[links >= 0].ravel())
        return bool((crossed <= 1).all())
