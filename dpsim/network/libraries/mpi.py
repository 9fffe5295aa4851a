"""MPI's all-reduce of host memory, and its two halves.

Recursive doubling for small vectors, Rabenseifner's halving and doubling for large ones.

With p ranks on each of N nodes, m = N p, and the reduction included in the rates:

    doubling      log2(p) (a + S b) + log2(N) (l + p S / R)
    Rabenseifner  2 log2(p) a + 2 log2(N) l + 2 (1 - 1/p) S b + 2 (1 - 1/N) S / R

and the faster of the two, logarithms rounded up. a and b are the time of a message and of a byte
inside a node (b: that of a rank alone, or its share of the node's memory rate), l and R the latency
and the rate of a node's network cards. The constants are fitted on OSU tables
(validate/published/data/mpi_allreduce.csv) and off by, on average over sizes and in sample: 12 % on
4 nodes of 96 ranks over InfiniBand, 17 % on 2 ranks of a node, 27 % on 2 nodes over Ethernet
(median 6 %; its switches between algorithms are not those above). Source of the algorithms: Thakur,
Rabenseifner and Gropp, IJHPCA 19(1), 2005.

Rabenseifner's algorithm is a reduce-scatter by halving and an all-gather by doubling, each of which
takes half the time. The halves were not compared with any measurement.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.collectives import Traffic, algorithm, traffic
from dpsim.network.collective_models import CommonFinish
from dpsim.network.libraries.far import to_partners
from dpsim.network.libraries.nccl import gpus_per_node, network_cards
from dpsim.network.rounds import RoundsModel
from dpsim.topology import Cluster

SHARED_LATENCY = 1.11e-6  # s
SHARED_RATE = 3.97e9  # B/s of one rank, reduction included
MEMORY_RATE = 110e9  # B/s of all ranks of a node
RDMA_LATENCY = 2.73e-6  # s
RDMA_SHARE = 0.93  # of the cards' line rate: 23.3 GB/s of 25
SOCKET_LATENCY = 21.3e-6  # s, over Ethernet
SOCKET_SHARE = 0.9  # assumed: the line rate of the Ethernet table is not stated
LONGEST_HOP = 50e-6  # s, of the catalogue's networks: over sockets


# By operation: the candidate algorithms, each with the schedule that moves its bytes. A ring moves
# as many bytes as halving and doubling.
_SCHEDULES = {
    "all-reduce": {"doubling": "butterfly", "rabenseifner": "halving-doubling"},
    "reduce-scatter": {"halving": "ring"},
    "all-gather": {"doubling": "ring"},
}


class MpiModel(CommonFinish):
    """The model of one of MPI's ``operations``."""

    operations: ClassVar[tuple[str, ...]] = tuple(_SCHEDULES)
    compared: ClassVar[str] = "of MPI three tables of processors were measured, and no GPUs"

    def __init__(
        self, cluster: Cluster, *, operation: str = "all-reduce", itemsize: int = 4
    ) -> None:
        self.cluster = self.network = cluster
        self.itemsize = itemsize
        self.nodes, self.per_node = cluster.nodes, gpus_per_node(cluster)
        # The cards with the lowest rate, because the slowest node sets the pace.
        cards = min(network_cards(kind) for kind in cluster.kinds)
        sockets = cards.transport in ("tcp", "unknown")
        self.latency = SOCKET_LATENCY if sockets else RDMA_LATENCY
        self.rate = cards.rate * (SOCKET_SHARE if sockets else RDMA_SHARE)
        self.operation = operation
        self._models = {
            name: RoundsModel(
                algorithm(schedule, operation).schedule(cluster.ranks), cluster, itemsize=itemsize
            )
            for name, schedule in _SCHEDULES[operation].items()
        }

    def _time(self, nbytes: int) -> tuple[float, str]:
        """Return the faster of ``doubling`` and ``rabenseifner``, or a half's only algorithm."""
        seconds = self.seconds(nbytes)
        fastest = min(seconds, key=lambda name: seconds[name])
        return seconds[fastest], fastest

    def _loads(self, nbytes: int, name: str) -> FloatArray:
        """Return the loads of the algorithm's schedule."""
        return self._models[name].loads(nbytes)

    def traffic(self, nbytes: int) -> Traffic:
        return traffic(self._models[self.algorithm_for(nbytes)].schedule, nbytes, self.itemsize)

    def seconds(self, nbytes: int) -> dict[str, float]:
        """Return the time of each algorithm."""
        p, nodes = self.per_node, self.nodes
        inside, outside = float(np.ceil(np.log2(p))), float(np.ceil(np.log2(nodes)))
        byte = max(1 / SHARED_RATE, p / MEMORY_RATE)
        fixed = inside * SHARED_LATENCY + outside * self.latency + self._extra_latency
        shared, crossing = nbytes * byte, nbytes / self.rate
        half = fixed + (1 - 1 / p) * shared + (1 - 1 / nodes) * crossing
        if self.operation != "all-reduce":
            return dict.fromkeys(self._models, half)
        doubling = fixed + inside * shared + outside * p * crossing
        return {"doubling": doubling, "rabenseifner": 2 * half}

    @cached_property
    def _extra_latency(self) -> float:
        """Extra seconds of one message to each partner on routes longer than any measured."""
        heads = self.cluster.first_rank[None, :-1]
        shifts = [2**step for step in range((self.nodes - 1).bit_length())]
        return to_partners(self.cluster, heads, shifts, LONGEST_HOP)
