"""All-reduce in switches that reduce and multicast (SHARP, and NVLink SHARP between nodes).

Every vector crosses each link once. Each rank reduces its part of the vector with the other ranks
of its node by a ring, sends it up to the switches, which add the parts of all nodes, receives the
sum, and shares it inside the node by a ring. Pieces stream, so the way up and the way down overlap:
P bytes of a part take o + alpha + P beta once the last rank is ready, with alpha the longest way up
and down between two nodes and beta that of the slowest link that the ranks' parts cross together.
With one GPU per node the total is o + alpha + S beta. No rank can finish before its own link has
carried its part, S beta: a lower bound than the 2 (m-1)/m S beta of every schedule. Switches are
assumed to add at the rate of their links, in trees as large as the cluster. Source:
Graham et al., "Scalable Hierarchical Aggregation Protocol (SHArP)", COMHPC 2016.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.errors import DpsimError
from dpsim.collectives import (
    IN_NETWORK,
    Phase,
    Rings,
    Schedule,
    Traffic,
    ranks_array,
    traffic,
)
from dpsim.network.collective_models import CollectiveModel
from dpsim.network.maxmin import max_min_rates
from dpsim.network.outcome import MessageCosts, Outcome
from dpsim.network.rounds import RoundsModel
from dpsim.topology import Network, Routes


class InNetworkModel(CollectiveModel):
    """An all-reduce in the switches between the nodes of ``network``, which must support it."""

    def __init__(
        self, network: Network, costs: MessageCosts | None = None, *, itemsize: int = 4
    ) -> None:
        self.network = network
        self.costs = costs or MessageCosts()
        self.itemsize = itemsize
        ranks = network.ranks
        group: int | None = getattr(network, "per_node", 1)
        if group is None:
            raise DpsimError(
                "algorithm in-network must have equal numbers of GPUs per node, but got others"
            )
        self.group = group
        rank = ranks_array(ranks)
        self._place = rank % self.group
        following = rank - self._place + (self._place + 1) % self.group
        inside = Rings(rank, self._place, following, self.group)
        self._reduce_inside = self._by_rounds(inside.reduce_scatter())
        self._share_inside = self._by_rounds(inside.all_gather())

    def _by_rounds(self, phases: tuple[Phase, ...]) -> RoundsModel:
        schedule = Schedule("all-reduce", IN_NETWORK, self.network.ranks, self.group, phases)
        return RoundsModel(schedule, self.network, self.costs, itemsize=self.itemsize)

    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """Return when each rank that enters at ``starts`` finishes (s, vectors over ranks).

        ``nbytes`` is the size of each rank's vector.
        """
        reduced = self._reduce_inside.finish(starts, nbytes)
        summed = self._through_switches(reduced.finishes, nbytes)
        shared = self._share_inside.finish(summed, nbytes)
        return Outcome(shared.finishes, reduced.loads + shared.loads + self._loads(nbytes))

    def traffic(self, nbytes: int) -> Traffic:
        """Return the bytes that each rank exchanges inside its node and with the switches."""
        reduced = traffic(self._reduce_inside.schedule, nbytes, self.itemsize)
        shared = traffic(self._share_inside.schedule, nbytes, self.itemsize)
        part = self._parts(nbytes) * (self._nodes > 1)
        return Traffic(reduced.sent + shared.sent + part, reduced.received + shared.received + part)

    def algorithm_for(self, nbytes: int) -> str:
        """Return ``in-network``, at any size."""
        return IN_NETWORK

    @property
    def _nodes(self) -> int:
        return self.network.ranks // self.group

    def _parts(self, nbytes: int) -> IntArray:
        """Return the bytes of each rank's part of the vector."""
        chunking = self._reduce_inside.schedule.chunking(nbytes, self.itemsize)
        return chunking.nbytes(self._place, np.array(1))

    def _through_switches(self, ready: FloatArray, nbytes: int) -> FloatArray:
        """Return when each rank has the sum of its part.

        Ranks with the same index in their nodes wait for the last of them.
        """
        if self._nodes == 1:
            return ready
        # Pieces stream up and down at the same time, so bytes count once.
        latency, rate = self._latency_and_rate
        seconds = latency.max() + self._parts(nbytes) / rate
        # Shape (nodes, GPUs per node): the ranks of a column sum the same part.
        ends = (ready + self.costs.overhead + seconds).reshape(self._nodes, self.group)
        return np.tile(ends.max(axis=0), self._nodes)

    @cached_property
    def _to_next_node(self) -> Routes:
        """Routes from each rank to the rank with the same index in the next node.

        Together they cross all links that parts cross.
        """
        rank = ranks_array(self.network.ranks)
        return self.network.routes(rank, (rank + self.group) % self.network.ranks)

    @cached_property
    def _latency_and_rate(self) -> tuple[FloatArray, FloatArray]:
        """The latency (s) and the rate (B/s) of each rank's part.

        The latency is taken from the route to the node half the nodes away, as the farthest.
        """
        ranks = self.network.ranks
        rank = ranks_array(ranks)
        half_way = self._nodes // 2 * self.group
        far = self.network.routes(rank, (rank + half_way) % ranks)
        latency = np.maximum(far.latency, self._to_next_node.latency)
        return latency, max_min_rates(self._to_next_node.links, self.network.capacities)

    def _loads(self, nbytes: int) -> FloatArray:
        parts = self._parts(nbytes) * (self._nodes > 1)
        return self._to_next_node.loads(parts, len(self.network.capacities))
