"""A schedule timed as flows: exact even if links are shared unevenly."""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.budget import check_memory
from dpsim.collectives import Schedule
from dpsim.network.collective_models import ScheduleModel, transfer_bytes
from dpsim.network.conditions import NO_CONDITIONS, Conditions
from dpsim.network.flows import CollectiveRun, SharedNetwork, finish_by_loops
from dpsim.network.kernel import kernel
from dpsim.network.outcome import MessageCosts, Outcome
from dpsim.topology import Network

# Time of a message by numpy (2.2 GHz Xeon), if each is an event of its own; the loops are used from
# a total of `_MUCH` s on.
_SECONDS_A_MESSAGE = 1.4e-4
_MUCH = 0.02
# Transfers of a round beyond which numpy is as fast, because so many start and end together.
_MOST_AT_ONCE = 16_384


class FlowsModel(ScheduleModel):
    """A schedule on a network, timed as flows, under ``conditions``."""

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

    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """Return when each rank that enters at ``starts`` finishes (s, vectors over ranks).

        ``nbytes`` is the size of each rank's vector. Raises DpsimError if a cut link leaves no
        path.
        """
        found = self._by_loops(starts, nbytes)
        if found is not None:
            return found
        # Rounds stay in memory, because ranks may be rounds apart.
        check_memory(
            transfer_bytes(self.network) * self.schedule.transfers,
            f"{self.schedule.algorithm} of {len(starts):,} ranks as flows",
            "time it by rounds, which takes seconds (network_model: auto), or take fewer nodes",
        )
        shared = SharedNetwork(self.network, float(starts.min()), self.conditions)
        ranks = np.arange(len(starts))
        run = CollectiveRun(shared, self.schedule, ranks, nbytes, self.costs, self.itemsize)
        return run.run(starts)

    def _by_loops(self, starts: FloatArray, nbytes: int) -> Outcome | None:
        """Return the outcome by compiled loops, if they support the case and are worth it."""
        seconds = self.schedule.transfers * _SECONDS_A_MESSAGE
        many = self.schedule.most_at_once > _MOST_AT_ONCE
        if self.conditions or many or seconds < _MUCH:
            return None
        loops = kernel(seconds)
        if loops is None:
            return None
        return finish_by_loops(
            loops, self.network, self.schedule, starts, nbytes, self.costs, self.itemsize
        )
