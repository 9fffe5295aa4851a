"""Networks small enough to work out by hand."""

from dataclasses import dataclass

import numpy as np

from dpsim.topology import Routes, UniformSwitch


@dataclass
class UnequalSwitch:
    """Ranks on a switch.

    ``capacities`` are B/s out of each rank, then into each; ``latency`` s from each rank, or one
    for all.
    """

    capacities: np.ndarray
    latency: np.ndarray | float = 0.0

    @property
    def ranks(self):
        return len(self.capacities) // 2

    def routes(self, source, destination):
        links = UniformSwitch(self.ranks, 1.0, 0.0).routes(source, destination).links
        return Routes(links, np.broadcast_to(self.latency, self.ranks)[source].astype(float))

    def link_name(self, link):
        return f"link{link}"


@dataclass
class OneWire:
    """All ranks share one wire of 1 B/s, without latency.

    Two GPUs of one node behind one network card.
    """

    ranks: int
    capacities = np.array([1.0])

    def routes(self, source, destination):
        return Routes(np.zeros((len(source), 1), dtype=np.int64), np.zeros(len(source)))

    def link_name(self, link):
        return "wire"
