"""Rounds that flows confirm: where rounds may meet on a link, flows say what that costs.

Where rounds never meet (`rounds_stay_apart`) they are exact from equal starts, and nothing is
added: a transfer that begins on a link while one of an earlier round is still on it shares the link
with it, which rounds do not see. Elsewhere the schedule is played as flows once for each size, all
ranks starting together, and each rank's finish moves by the difference: exact from equal starts
again. With starts of their own, the skew is what rounds make of it. Schedules of more than
`MOST_TRANSFERS` transfers are not played as flows: they are held to the bound of their links alone
(`CollectiveModel.finish`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.budget import check
from dpsim.collectives import Phase, Schedule
from dpsim.network.model import Ability, ScheduleModel
from dpsim.network.outcome import MessageCosts, Outcome
from dpsim.network.rounds.rounds import RoundsModel
from dpsim.topology import Network

MOST_TRANSFERS = 10_000  # about a second as flows
_MOST_ROUNDS = 256  # of a phase that repeats; ranks that are apart by then are taken to overlap
_SAME = 1e-9  # relative: what begins earlier by less does not overlap


class ConfirmedRounds(ScheduleModel):
    """A schedule on a network, timed by rounds as flows have them from equal starts."""

    abilities = Ability.OWN_STARTS

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
        self._later: dict[int, FloatArray | None] = {}

    @property
    def is_small(self) -> bool:
        """Whether it can be played as flows."""
        phases = self.schedule.phases
        return sum(len(phase.source) * phase.rounds for phase in phases) <= MOST_TRANSFERS

    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """When each rank finishes (s) that enters at ``starts`` (s)."""
        later = self._later_by(nbytes)
        if later is None:
            # What links need is asked for once, by `finish`.
            ends = self.rounds.ends_of_rounds(starts, nbytes)
            return Outcome(ends, self.rounds.loads(nbytes))
        outcome = self.rounds.finish(starts, nbytes)
        return replace(outcome, finishes=outcome.finishes + later)

    def _later_by(self, nbytes: int) -> FloatArray | None:
        """Seconds by which each rank finishes later by flows.

        None where rounds are exact, or where there are too many transfers for flows.
        """
        if nbytes not in self._later:
            # A single round meets no other.
            single = self.schedule.rounds <= 1
            exact = single or not self.is_small or rounds_stay_apart(self.rounds, nbytes)
            self._later[nbytes] = None if exact else self._beside_flows(nbytes)
        return self._later[nbytes]

    def _beside_flows(self, nbytes: int) -> FloatArray:
        from dpsim.network.flows_model import FlowsModel

        together = np.zeros(self.schedule.ranks)
        flows = FlowsModel(self.schedule, self.network, self.costs, itemsize=self.itemsize)
        by_flows = flows.finish(together, nbytes).finishes
        return np.asarray(by_flows - self.rounds.finish(together, nbytes).finishes)


def rounds_stay_apart(model: RoundsModel, nbytes: int) -> bool:
    """Whether rounds of ``nbytes`` never meet on a link when all ranks start together."""
    return _Play(model, nbytes).apart


class _Play:
    """The rounds of a collective, one after the other, from equal starts."""

    def __init__(self, model: RoundsModel, nbytes: int) -> None:
        self.model = model
        self.chunking = model.schedule.chunking(nbytes, model.itemsize)
        self.ready = np.zeros(model.schedule.places)
        # The last is for -1, no link.
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
                break  # every turn from here on is this one, later
        else:
            # Ranks still drift apart: pairs that have their links to themselves never meet.
            return phase.rounds <= _MOST_ROUNDS or self._own_links(number)
        return True

    def _turn(self, number: int, turn: int) -> bool:
        """Play one round; returns whether no earlier one was still on its links."""
        check()
        timed = self.model.timed_round(number, turn, self.chunking)
        links, latency = self.model.links_of(number, turn)
        posted = self.ready + timed.overhead
        begin = np.maximum(posted[timed.source], posted[timed.destination]) + latency
        # A message without bytes is on no link; one with bytes is there once its latency is over.
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
        """Whether each link is crossed by one transfer of the pattern at most."""
        links, _ = self.model.links_of(number, 0)
        crossed = np.bincount(links[links >= 0].ravel())
        return bool((crossed <= 1).all())
