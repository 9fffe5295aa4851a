"""NCCL on a cluster as a collective model, timed by `dpsim.network.libraries.nccl.prediction`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from functools import cached_property, lru_cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.errors import DpsimError
from dpsim.collectives import Schedule, Traffic, algorithm, traffic
from dpsim.network.collective_models import CollectiveModel, CommonFinish
from dpsim.network.libraries.far import along_trees, around_rings, to_partners
from dpsim.network.libraries.nccl.channels import (
    exchange_loads,
    exchanges,
    ring_loads,
    rings,
    tree_loads,
)
from dpsim.network.libraries.nccl.cluster_machine import machine_of, network_cards
from dpsim.network.libraries.nccl.machine import NVSWITCH, NcclMachine
from dpsim.network.libraries.nccl.prediction import machine_constants, predict
from dpsim.network.libraries.nccl.selection import CHAINS
from dpsim.network.rounds import RoundsModel
from dpsim.topology import Cluster

if TYPE_CHECKING:
    from dpsim.base.uncertainty import ModelError
    from dpsim.collectives import Groups
    from dpsim.network.libraries.nccl.explanation import Explanation

# NCCL's name of each of dpsim's operations, and the schedule used where the channels do not
# determine the traffic.
_OPERATIONS = {
    "all-reduce": ("all_reduce", "ring"),
    "all-gather": ("all_gather", "ring"),
    "reduce-scatter": ("reduce_scatter", "ring"),
    "all-to-all": ("alltoall", "pairwise"),
    "broadcast": ("broadcast", "tree"),
    "reduce": ("reduce", "tree"),
}
_EXCHANGE = "pairwise"  # each rank sends to each
_PROBE = 2**30  # bytes for comparing links: loads are proportional
_MOST_KEPT = 1 << 20  # cached loads of links: steps repeat a few sizes
# dpsim's algorithms by their names in NCCL_ALGO.
_RESTRICTIONS = {"auto": None, "ring": "ring", "tree": "tree", "in-network": "nvls"}


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _cached(most: int) -> Callable[[_Method], _Method]:
    """Cache up to ``most`` results of a method in each model.

    A cache in the method itself would keep models, and their clusters, alive after their use.
    """

    def decorate(method: _Method) -> _Method:
        @wraps(method)
        def answer(model: NcclModel, *arguments: Any) -> Any:
            results = model._results.setdefault(method.__name__, {})
            if arguments not in results:
                if len(results) == most:
                    results.clear()
                results[arguments] = method(model, *arguments)
            return results[arguments]

        return cast("_Method", answer)

    return decorate


class NcclModel(CommonFinish):
    """One operation by NCCL on a cluster.

    ``restriction`` is "auto" (NCCL chooses) or a required algorithm, like NCCL_ALGO: "ring", "tree"
    or "in-network" (NVLS, between nodes NVLSTree). Traffic is counted as for a ring, whichever
    algorithm runs. Link loads follow its channels, which leave nodes by all cards. If they load a
    link of the fabric more than the cards, that link sets the rate. Raises DpsimError for
    algorithms and operations that NCCL lacks.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        operation: str = "all-reduce",
        restriction: str = "auto",
        itemsize: int = 4,
        groups: Groups | None = None,
    ) -> None:
        restriction = _restriction(operation, restriction)
        forced = _RESTRICTIONS[restriction]
        self.cluster = self.network = cluster
        self.groups = groups
        machine = machine_of(cluster, groups)
        if forced == "nvls" and machine.nodes > 1:
            forced = "nvlstree"
        self.machine = replace(machine, forced_algorithm=forced)
        everyone = np.arange(cluster.ranks)[None]
        self.members = everyone if groups is None else groups.members(cluster.ranks)
        self.itemsize = itemsize
        self.operation, self._schedule_name = _OPERATIONS[operation]
        self._name = operation
        self._results: dict[str, dict[Any, Any]] = {}
        self._kept_loads: dict[tuple[int, str], FloatArray] = {}
        # NCCL ignores a setting that excludes every algorithm, so check what would run.
        if forced is not None and self.machine.ranks > 1:
            _, chosen, _ = _predicted(self.machine, self.operation, itemsize, 1)
            if chosen != forced:
                raise DpsimError(
                    f"algorithm {restriction} must be one that NCCL can run here, but the cluster "
                    "has none of it"
                )

    @property
    def _is_direct(self) -> bool:
        """Whether it is an all-to-all in which each rank sends to each over its own route."""
        by_peers = self.machine.nodes > 1 and self.machine.intra == NVSWITCH
        return self._schedule_name == _EXCHANGE and not by_peers

    @cached_property
    def _schedule(self) -> Schedule:
        """The schedule whose traffic is counted, whichever algorithm runs."""
        chosen = algorithm(self._schedule_name, self._name)
        if self.groups is not None:
            from dpsim.collectives import in_groups

            chosen = in_groups(chosen, self.groups)
        return chosen.schedule(self.cluster.ranks)

    @cached_property
    def _by_schedule(self) -> RoundsModel:
        """The model whose link loads are used where the channels do not determine them."""
        return RoundsModel(self._schedule, self.cluster, itemsize=self.itemsize)

    def _loads(self, nbytes: int, name: str) -> FloatArray:
        """Return the bytes on each capacity by the channels of the algorithm ``name``."""
        if self._is_direct:
            return self._by_schedule.loads(nbytes)
        kept = self._kept_loads
        if (nbytes, name) not in kept:
            loads = nbytes * self._loads_of_a_byte(name.split("/", maxsplit=1)[0])
            if len(kept) * len(loads) > _MOST_KEPT:
                kept.clear()
            kept[nbytes, name] = loads
        return kept[nbytes, name]

    @_cached(most=8)
    def _loads_of_a_byte(self, chosen: str) -> FloatArray:
        return self._loads_by(chosen, self.members)

    def _loads_by(self, chosen: str, members: IntArray) -> FloatArray:
        """Return each link's load per byte in the collectives of ``members``."""
        ranks, local = self.machine.ranks, self.machine.gpus_per_node
        if self._schedule_name == _EXCHANGE:
            return exchange_loads(self.cluster, members, local)
        if self.machine.nodes > 1 and chosen in ("tree", "nvlstree"):
            in_switch = chosen == "nvlstree"
            return tree_loads(self.cluster, members, local, 1.0, in_switch=in_switch)
        # If switches reduce, each GPU sends its vector once and receives the sum once.
        rounds = 1 if chosen == "nvls" else _rounds(self.operation)
        each = _ring_bytes(self.operation, rounds, ranks)
        return ring_loads(self.cluster, members, local, each)

    def crossings(self) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Yield the links of its rings; trees use the same cards."""
        if self._is_direct:
            yield from self._by_schedule.crossings()
            return
        local = self.machine.gpus_per_node
        exchange = self._schedule_name == _EXCHANGE
        hops = (
            exchanges(self.members, local) if exchange else rings(self.cluster, self.members, local)
        )
        for source, destination, _ in hops:
            routes = self.cluster.routes(source, destination)
            yield routes.links, source, destination

    def of_group(self, ranks: IntArray) -> CollectiveModel:
        """Return the model of the group's channels, which share links with no others."""
        from dpsim.network.libraries.one_group import OneGroup

        if self._is_direct:
            return OneGroup(self, ranks, self._by_schedule.of_group(ranks).loads)
        one_group = copy(self)
        one_group.members, one_group._results, one_group._kept_loads = ranks[None], {}, {}
        return OneGroup(one_group, ranks, one_group.loads)

    @_cached(most=8)
    def _fabric_share(self, chosen: str) -> float:
        """Return the share of the cards' rate that the slowest link of the fabric allows.

        1 if no link limits it. Oversubscribed or slow links, cards that few GPUs can reach, and
        directions that share a link lower it.
        """
        if self.machine.nodes == 1:
            return 1.0
        leave_a_node = _PROBE * _leaving(self.machine, self.operation, chosen)
        loads = self._loads(_PROBE, f"{chosen}/")
        outside = slice(self.cluster.first_capacity[-1], None)  # the fabric's links come last
        links = float((loads[outside] / self.cluster.capacities[outside]).max())
        node_cards = [network_cards(kind) for kind in self.cluster.kinds]
        usable = min(cards.bandwidth for cards in node_cards)
        usable *= self.machine.nic_rate / min(cards.rate for cards in node_cards)
        cards = leave_a_node / usable
        return min(1.0, cards / links)

    @_cached(most=1)
    def sustained(self) -> float:
        """Return the share of its busiest link's rate that is usable for data."""
        outcome = self.finish(np.zeros(len(self.ends)), _PROBE)
        # Only the time of the second half of the bytes, which leaves out the start-up time.
        seconds = self.seconds_from_common_start(2 * _PROBE) - float(outcome.finishes.max())
        return min(self._busiest_seconds(outcome.loads) / seconds, 1.0)

    @_cached(most=8)
    def traffic(self, nbytes: int) -> Traffic:
        """Return the bytes that each rank sends and receives by a ring (all-to-all: directly)."""
        if self.operation in CHAINS:
            return self._chain_traffic(nbytes)
        return traffic(self._schedule, nbytes, self.itemsize)

    def _chain_traffic(self, nbytes: int) -> Traffic:
        """Return the traffic of a chain: each rank except the last (the root of a reduce) sends."""
        sent = np.zeros(self.cluster.ranks, dtype=np.int64)
        sent[self.members] = nbytes
        received = sent.copy()
        sent[self.members[:, -1]] = 0
        received[self.members[:, 0]] = 0
        return Traffic(received, sent) if self.operation == "reduce" else Traffic(sent, received)

    def model_error(self, nbytes: int) -> ModelError:
        """Return the error from the residuals on machines of this generation."""
        from dpsim.network.libraries.nccl.model_error import machine_error

        return machine_error(
            self.machine, self.operation, nbytes, self.seconds_from_common_start(nbytes)
        )

    @cached_property
    def nearest_machines(self) -> tuple[str, ...]:
        """Measured machines of this kind whose residuals correct its times inside a node."""
        return predict(self.machine, self.operation, self.itemsize, [1]).neighbours

    def explain(self, nbytes: int) -> Explanation:
        """Return the explanation of NCCL's choice at this size."""
        from dpsim.network.libraries.nccl.explanation import explain

        share = self._fabric_share(self.algorithm_for(nbytes).split("/")[0])
        machine = replace(self.machine, fabric_share=share)
        return explain(machine, self.operation, self.itemsize, nbytes, self._extra_latency)

    @_cached(most=4096)
    def _time(self, nbytes: int) -> tuple[float, str]:
        """Return the time, and the branch such as ``nvls/Simple``. 0 bytes cost as much as 1."""
        nbytes = max(nbytes, 1)
        seconds, chosen, protocol = _predicted(self.machine, self.operation, self.itemsize, nbytes)
        share = self._fabric_share(chosen)
        if share < 1:
            slowed = replace(self.machine, fabric_share=share)
            seconds, _, protocol = _predicted(slowed, self.operation, self.itemsize, nbytes)
        return seconds + self._extra_latency(chosen), f"{chosen}/{protocol}"

    @_cached(most=8)
    def _extra_latency(self, chosen: str) -> float:
        """Return the extra seconds per call on routes that are longer than any measured.

        NCCL does not consider them when it chooses.
        """
        if self.machine.nodes == 1:
            return 0.0
        heads = self.members[:, :: self.machine.gpus_per_node]
        usual = float(machine_constants(self.machine)["net_h_Simple"][0])
        if self._schedule_name == _EXCHANGE:
            return max(
                to_partners(self.cluster, heads, [shift], usual)
                for shift in range(1, self.machine.nodes)
            )
        if chosen in ("tree", "nvlstree"):
            return along_trees(self.cluster, heads, usual)
        steps = _rounds(self.operation) * (self.machine.nodes - 1)
        return around_rings(self.cluster, heads, steps, usual)


def _restriction(operation: str, arguments: str) -> str:
    """Return the required algorithm. Raises DpsimError for operations or algorithms NCCL lacks."""
    if operation not in _OPERATIONS:
        raise DpsimError(
            f"operation must be one that library nccl models ({', '.join(_OPERATIONS)}), but "
            f"got {operation!r}"
        )
    # The other operations have one algorithm each, whatever is asked for.
    restriction = arguments if operation == "all-reduce" else "auto"
    if restriction not in _RESTRICTIONS:
        raise DpsimError(
            "algorithm must be auto, ring, tree or in-network with library nccl, but got "
            f"{restriction!r}"
        )
    return restriction


# Cached, because equal groups are one machine.
@lru_cache(maxsize=4096)
def _predicted(
    machine: NcclMachine, operation: str, itemsize: int, nbytes: int
) -> tuple[float, str, str]:
    """Return the seconds, and the algorithm and protocol that run."""
    found = predict(machine, operation, itemsize, [nbytes])
    return float(found.seconds[0]), found.algorithm[0], found.protocol[0]


def _leaving(machine: NcclMachine, operation: str, chosen: str) -> float:
    """Return the bytes that leave the busiest node by its cards per byte of the vector."""
    if operation == "alltoall":
        return machine.gpus_per_node * (machine.nodes - 1) / machine.nodes
    if chosen in ("tree", "nvlstree"):
        # A node is a leaf of one tree and has two children in the other.
        return 1.0 if machine.nodes == 2 else 2.0
    return _ring_bytes(operation, _rounds(operation), machine.ranks)


def _rounds(operation: str) -> int:
    """Return how often a vector passes a ring."""
    return 2 if operation == "all_reduce" else 1


def _ring_bytes(operation: str, rounds: int, ranks: int) -> float:
    """Return the bytes that a rank passes on in a ring per byte of the vector; 1 in a chain."""
    return 1.0 if operation in CHAINS else rounds * (ranks - 1) / ranks
