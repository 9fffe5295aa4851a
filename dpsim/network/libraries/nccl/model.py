"""NCCL as a model of a collective.

What `dpsim.network.libraries.nccl.prediction` answers, on a cluster.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.collectives import Groups, Traffic, algorithm, in_groups, once_each, ranks_array, traffic
from dpsim.network.libraries.nccl.channels import rotated_ring
from dpsim.network.libraries.nccl.explain import Explanation, explain
from dpsim.network.libraries.nccl.of_cluster import machine_of
from dpsim.network.libraries.nccl.prediction import predict
from dpsim.network.model import Ability, CollectiveModel, Outcome, leaving_together
from dpsim.network.rounds import RoundsModel
from dpsim.topology import Cluster

# dpsim's operations as NCCL calls them, and the schedule whose traffic and link loads stand for
# them.
_OPERATIONS = {
    "all-reduce": ("all_reduce", "ring"),
    "all-gather": ("all_gather", "ring"),
    "reduce-scatter": ("reduce_scatter", "ring"),
    "all-to-all": ("alltoall", "all-to-all"),
}
# dpsim's algorithms as NCCL_ALGO knows them.
_RESTRICTIONS = {"auto": None, "ring": "ring", "tree": "tree", "in-network": "nvls"}


class NcclModel(CollectiveModel):
    """One operation by NCCL on a cluster.

    All ranks that meet leave together, the predicted time after the last of them entered.

    ``restriction`` is "auto" (NCCL chooses) or an algorithm that it is held to, like NCCL_ALGO:
    "ring", "tree" or "in-network" (NVLS, between nodes NVLSTree). Traffic is that of a ring,
    whichever algorithm runs, and link loads are those of its channels, rings that leave nodes by
    all cards: trees send about as much through them. Raises DpsimError for what NCCL does not have.
    """

    abilities = Ability.NONE

    def __init__(
        self,
        cluster: Cluster,
        *,
        operation: str = "all-reduce",
        restriction: str = "auto",
        itemsize: int = 4,
        groups: Groups | None = None,
    ) -> None:
        if operation not in _OPERATIONS:
            raise DpsimError(
                f"operation must be one that library nccl models ({', '.join(_OPERATIONS)}), but "
                f"got {operation!r}"
            )
        if operation != "all-reduce":
            restriction = "auto"  # the others have one algorithm each
        if restriction not in _RESTRICTIONS:
            raise DpsimError(
                "algorithm must be auto, ring, tree or in-network with library nccl, but got "
                f"{restriction!r}"
            )
        forced = _RESTRICTIONS[restriction]
        self.cluster = self.network = cluster
        self.groups = groups
        machine = machine_of(cluster, groups)
        if forced == "nvls" and machine.nodes > 1:
            forced = "nvlstree"
        self.machine = replace(machine, forced_algorithm=forced)
        self._meeting = ranks_array(cluster.ranks)[None]
        if groups is not None:
            self._meeting = groups.meeting(cluster.ranks)
        self.itemsize = itemsize
        self.operation, self._schedule_name = _OPERATIONS[operation]
        self._name = operation
        if (
            forced is not None
            and self.machine.ranks > 1
            and self._time(1)[1].split("/")[0] != forced
        ):
            raise DpsimError(
                f"algorithm {restriction} must be one that NCCL can run here, but the cluster has "
                "none of it"
            )

    @cached_property
    def _ring(self) -> RoundsModel:
        chosen = algorithm(self._schedule_name, self._name)
        if self.groups is not None:
            chosen = in_groups(chosen, self.groups)
        schedule = chosen.schedule(self.cluster.ranks)
        return RoundsModel(schedule, self.cluster, itemsize=self.itemsize)

    @cached_property
    def _channels(self) -> tuple[RoundsModel, ...]:
        """Rings side by side, each of which leaves nodes by another GPU and its card.

        Direct exchanges, and rings inside one node or through unequal ones, are as they are.
        """
        nodes, per_node = self.machine.nodes, self.machine.gpus_per_node
        if self._schedule_name != "ring" or nodes == 1:
            return (self._ring,)
        channels = []
        for first in range(per_node):
            ring = rotated_ring(self._name, nodes, per_node, first)
            if self.groups is not None:
                ring = once_each(ring, self.groups, self.cluster.ranks)
            channels.append(RoundsModel(ring, self.cluster, itemsize=self.itemsize))
        return tuple(channels)

    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """All ranks that meet leave together (s), having entered at ``starts``.

        Nothing to send costs what the smallest message does.
        """
        seconds, name = self._time(max(nbytes, 1))
        ends = leaving_together(starts, self._meeting, seconds)
        return Outcome(ends, self._loads(nbytes, name))

    @lru_cache(maxsize=4096)  # noqa: B019 - a model lives as long as its simulation
    def _loads(self, nbytes: int, name: str) -> FloatArray:
        """Bytes on each capacity, spread evenly over the channels.

        NVLS sends half as much inside nodes, where switches add up.
        """
        channels = self._channels
        loads = np.mean([channel.loads(nbytes) for channel in channels], axis=0)
        if name.startswith("nvls"):
            loads[: self.cluster.inside] /= 2
        return np.asarray(loads)

    def traffic(self, nbytes: int) -> Traffic:
        """Bytes that each rank sends and receives by a ring (all-to-all: directly)."""
        schedule = self._ring.schedule
        return traffic(schedule, schedule.chunking(nbytes, self.itemsize))

    def algorithm_for(self, nbytes: int) -> str:
        """NCCL's choice at this size, such as ``nvls/Simple``."""
        return self._time(max(nbytes, 1))[1]

    def explain(self, nbytes: int) -> Explanation:
        """Why NCCL chooses what it does at this size."""
        return explain(self.machine, self.operation, self.itemsize, nbytes)

    @lru_cache(maxsize=4096)  # noqa: B019 - a model lives as long as its simulation
    def _time(self, nbytes: int) -> tuple[float, str]:
        found = predict(self.machine, self.operation, self.itemsize, [nbytes])
        return float(found.seconds[0]), f"{found.algorithm[0]}/{found.protocol[0]}"
