"""Time of a collective by its algorithm's exact cost function, on a uniform switch."""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.collectives import Algorithm, Costs, RankLayout
from dpsim.network.collective_models import CommonFinish
from dpsim.network.outcome import MessageCosts
from dpsim.topology import UniformSwitch


class ClosedFormModel(CommonFinish):
    """An algorithm's cost function, the oracle that rounds and flows are tested against.

    Exact if all ranks start together on a `UniformSwitch`.
    """

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

    def _time(self, nbytes: int) -> tuple[float, str]:
        chunking = self.schedule.chunking(nbytes, self.itemsize)
        seconds = self.algorithm.exact_time(self.layout, chunking, self.costs)
        return seconds, self.schedule.algorithm

    def _loads(self, nbytes: int, name: str) -> FloatArray:
        """Return the bytes that each rank sends, and the bytes that each receives."""
        moved = self.traffic(nbytes)
        return np.concatenate([moved.sent, moved.received]).astype(np.float64)
