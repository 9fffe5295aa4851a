"""Rounds that flows confirm: where rounds may meet on a link, flows say what that costs.

Where rounds never meet (`rounds_stay_apart`) they are exact from equal starts, and nothing is
added. Elsewhere the schedule is played as flows once for each size, all ranks starting together,
and each rank's finish moves by the difference: exact from equal starts again. With starts of their
own, the skew is what rounds make of it. Schedules of more than `MOST_TRANSFERS` transfers are not
played as flows: they are held to the bound of their links alone (`CollectiveModel.finish`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.collectives import Schedule
from dpsim.network.model import Ability, MessageCosts, Outcome, ScheduleModel
from dpsim.network.rounds import RoundsModel, rounds_stay_apart
from dpsim.topology import Network

MOST_TRANSFERS = 10_000  # about a second as flows


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
        outcome, later = self.rounds.finish(starts, nbytes), self._later_by(nbytes)
        return outcome if later is None else replace(outcome, finishes=outcome.finishes + later)

    def _later_by(self, nbytes: int) -> FloatArray | None:
        """Seconds by which each rank finishes later by flows, None where rounds are exact or all
        there is.
        """
        if nbytes not in self._later:
            exact = not self.is_small or rounds_stay_apart(self.rounds, nbytes)
            self._later[nbytes] = None if exact else self._beside_flows(nbytes)
        return self._later[nbytes]

    def _beside_flows(self, nbytes: int) -> FloatArray:
        from dpsim.network.flows import FlowsModel

        together = np.zeros(self.schedule.ranks)
        flows = FlowsModel(self.schedule, self.network, self.costs, itemsize=self.itemsize)
        by_flows = flows.finish(together, nbytes).finishes
        return np.asarray(by_flows - self.rounds.finish(together, nbytes).finishes)
