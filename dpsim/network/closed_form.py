"""Times a collective by its algorithm's exact cost function.

It is for a uniform switch, with everyone waiting for the last to start.
"""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.collectives import Algorithm, Costs, RankLayout, traffic
from dpsim.network.model import Ability, CollectiveModel, MessageCosts, Outcome
from dpsim.topology import UniformSwitch


class ClosedFormModel(CollectiveModel):
    """The oracle that the executors are tested against.

    Exact where all ranks start together on a `UniformSwitch`.
    """

    abilities = Ability.NONE

    def __init__(
        self,
        algorithm: Algorithm,
        network: UniformSwitch,
        costs: MessageCosts | None = None,
        *,
        itemsize: int = 4,
    ) -> None:
        costs = costs or MessageCosts()
        self.algorithm = algorithm
        self.network = network
        self.costs = Costs(network.latency, 1 / network.rate, costs.gamma, costs.overhead)
        self.layout = RankLayout(network.ranks)
        self.schedule = algorithm.schedule(network.ranks)
        self.itemsize = itemsize

    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """Everyone finishes together, the exact time after the latest of ``starts``."""
        chunking = self.schedule.chunking(nbytes, self.itemsize)
        seconds = self.algorithm.exact_time(self.layout, chunking, self.costs)
        moved = traffic(self.schedule, chunking)
        loads = np.concatenate([moved.sent, moved.received]).astype(np.float64)
        return Outcome(np.full(self.network.ranks, starts.max() + seconds), loads)
