"""The ``cluster`` part of a scenario, and the cluster that it describes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from pydantic import Field, PositiveInt, ValidationError, model_validator

from dpsim.base.config import Config, first_problem
from dpsim.base.errors import DpsimError
from dpsim.base.units import plural
from dpsim.hardware import MOST_DEVICES, Gpu, GpuRef, Link, LinkRef, Node, NodeRef
from dpsim.topology.cluster import Cluster
from dpsim.topology.fabrics import NetworkConfig, Ports, SingleSwitchConfig
from dpsim.topology.mesh import Mesh
from dpsim.topology.node_graph import NodeGraph

MOST_NODES = 2**20


class NodeGroup(Config):
    """Equal nodes of a cluster with several kinds."""

    nodes: PositiveInt = Field(default=1, le=MOST_NODES, description="Number of these nodes.")
    node: NodeRef = Field(description="The kind of node: a catalogue name, or its description.")
    gpu: GpuRef | None = Field(
        default=None, description="GPUs in these nodes, if not the node's own."
    )
    gpus_per_node: PositiveInt | None = Field(
        default=None, description="GPUs in use per node; all of them if left out."
    )
    nic: LinkRef | None = Field(
        default=None,
        description="Each network card's link; the network's or the node's if left out.",
    )
    nics_per_node: PositiveInt | None = Field(
        default=None,
        le=MOST_DEVICES,
        description=(
            "Network cards in use per node; the network's number or the node's if left out."
        ),
    )

    @model_validator(mode="after")
    def _check_gpus_in_use(self) -> NodeGroup:
        _check_gpus(self.node, self.gpus_per_node)
        return self

    @property
    def accelerator(self) -> Gpu:
        """The kind of GPU that computes."""
        return self.gpu or self.node.gpu

    @property
    def ranks(self) -> int:
        """The number of GPUs in use."""
        return self.nodes * self.gpus

    @property
    def gpus(self) -> int:
        """The number of GPUs in use per node."""
        return self.gpus_per_node or self.node.gpus


Condition = Literal["ordinary", "tuned"]


class ClusterConfig(Config):
    """The machines and the network between them.

    Equal ones (``node``, ``nodes``), or groups of several kinds.
    """

    nodes: PositiveInt = Field(default=1, le=MOST_NODES, description="Number of nodes.")
    node: NodeRef | None = Field(
        default=None, description="The kind of node: a catalogue name, or its description."
    )
    gpu: GpuRef | None = Field(
        default=None, description="GPUs in the nodes, if not the node's own."
    )
    gpus_per_node: PositiveInt | None = Field(
        default=None, description="GPUs in use per node; all of them if left out."
    )
    groups: tuple[NodeGroup, ...] = Field(
        default=(), description="Nodes of several kinds, instead of node; ranks go group by group."
    )
    network: NetworkConfig = Field(
        default=SingleSwitchConfig(fabric="single-switch"), description="Network between the nodes."
    )

    condition: Condition | None = Field(
        default=None,
        description=(
            "Tuning of the machines. tuned: links and hosts perform as in vendor benchmarks; "
            "ordinary: data loaders and staged copies crowd the hosts, and sockets reach a part "
            "of the cards' rate. If left out: ordinary for software: reference with all-reduce or "
            "sharded aggregation, otherwise tuned. Calibrated values replace it."
        ),
    )

    @model_validator(mode="after")
    def _check_nodes(self) -> ClusterConfig:
        if self.node is None and not self.groups:
            raise ValueError("must have either node (and nodes) or groups, but got neither")

        equal_nodes = {
            # The default of 1 may be combined with groups.
            "nodes": self.nodes != 1,
            "node": self.node,
            "gpu": self.gpu,
            "gpus_per_node": self.gpus_per_node,
        }
        given = [name for name, value in equal_nodes.items() if value]
        if self.groups and given:
            raise ValueError(
                f"must have either node (and nodes) or groups, but got both groups and {given[0]}"
            )
        if self.node is not None:
            _check_gpus(self.node, self.gpus_per_node)
        # With a single node the network is not used.
        if sum(part.nodes for part in self.parts) > 1:
            self.network.check(self._cards_by_node(self.parts))
        return self

    @property
    def parts(self) -> tuple[NodeGroup, ...]:
        """The groups; equal nodes form a single one."""
        if self.node is None:
            return self.groups
        # Not validated again, because this is called many times in a run.
        return (
            NodeGroup.model_construct(
                nodes=self.nodes, node=self.node, gpu=self.gpu, gpus_per_node=self.gpus_per_node
            ),
        )

    @property
    def accelerator(self) -> Gpu:
        """The kind of GPU that computes.

        Raises DpsimError if there are several: `Cluster.accelerators` has each rank's.
        """
        kinds = {part.accelerator.name: part.accelerator for part in self.parts}
        if any(part.accelerator != self.parts[0].accelerator for part in self.parts):
            raise DpsimError(
                f"cluster.groups: must have GPUs of one kind here, but got {', '.join(kinds)}"
            )
        return self.parts[0].accelerator

    @property
    def ranks(self) -> int:
        """The number of GPUs in use."""
        return sum(part.ranks for part in self.parts)

    @property
    def mesh(self) -> Mesh:
        """Its GPUs as groups of ranks."""
        ranks = self.ranks
        numbers = {part.ranks // part.nodes for part in self.parts}
        return Mesh(ranks, numbers.pop() if len(numbers) == 1 else None)

    def _burst_caution(self, part: NodeGroup) -> str | None:
        """Return a caution if a node's cards have a burst rate above the sustained rate."""
        burst, own = part.node.nics.burst, part.node.nics.link.rate.value
        if burst is None:
            return None
        burst_rate, sustained = _gigabits(burst.value), _gigabits(own)
        name, used = part.node.name, self.nic_link(part).rate.value
        if used > own:
            rate = _gigabits(used)
            return f"{rate} is a burst rate of {name}; sustained is {sustained}"
        return (
            f"{burst_rate} of {name} is a burst rate; sustained is {sustained}, which counts here"
        )

    def with_nodes(self, nodes: int) -> ClusterConfig:
        """Return the same cluster with another number of equal nodes.

        Raises DpsimError for groups, and if the network does not fit.
        """
        if self.groups:
            raise DpsimError(
                "cluster.groups: must be changed group by group; only a cluster of equal nodes "
                "has a number of nodes"
            )
        try:
            return ClusterConfig.model_validate({**dict(self), "nodes": nodes})
        except ValidationError as error:
            problem = first_problem(error)._replace(where="")
            raise DpsimError(f"cluster with {plural(nodes, 'node')}: {problem}") from None

    def _cards(self, part: NodeGroup) -> int:
        # The most specific one: of the group, the network, or the kind of node.
        return part.nics_per_node or self.network.nics_per_node or part.node.nics.count

    def _cards_by_node(self, parts: tuple[NodeGroup, ...]) -> list[int]:
        """Return the number of network cards in use in each node."""
        return [self._cards(part) for part in parts for _ in range(part.nodes)]

    def nic_link(self, part: NodeGroup) -> Link:
        """Return the link of each network card of ``part``."""
        return part.nic or self.network.nic or part.node.nics.link

    def build(self) -> Cluster:
        """Return the cluster that this describes."""
        return self._built(self.parts, host=False)

    def with_hosts(self, servers: int = 0) -> Cluster:
        """Return the same cluster with a route end for each node's CPU, after its GPUs.

        ``servers`` more nodes of the first kind are added at the end of the cluster. Raises
        DpsimError if the network has no room for them.
        """
        parts = self.parts
        if servers:
            # At the end, so that the other nodes keep their numbers.
            parts = (*parts, parts[0].model_copy(update={"nodes": servers}))
        try:
            if servers:
                self.network.check(self._cards_by_node(parts))
            return self._built(parts, host=True)
        except ValueError as error:
            raise DpsimError(
                f"cluster with {plural(servers, 'node')} for servers: {error}"
            ) from None

    def _built(self, parts: tuple[NodeGroup, ...], *, host: bool) -> Cluster:
        groups = []
        for part in parts:
            # Library models read the GPU and the network link in use from the node.
            nics = part.node.nics.model_copy(update={"link": self.nic_link(part)})
            node = part.node.model_copy(update={"nics": nics, "gpu": part.accelerator})
            used = _UsedNode(node, self._cards(part), part.gpus_per_node, host)
            groups.append((_graph(used), part.nodes))
        # A single node needs no fabric: its network cards lead nowhere.
        if sum(part.nodes for part in parts) == 1:
            return Cluster(groups, None)
        cautions = tuple(dict.fromkeys(filter(None, map(self._burst_caution, parts))))
        return Cluster(
            groups,
            self.network.fabric_of(self._ports(parts)),
            reduces=self.network.reduces,
            duplex=self.network.duplex,
            cautions=cautions,
        )

    def _ports(self, parts: tuple[NodeGroup, ...]) -> Ports:
        """Return the ports of the nodes' network cards on the fabric."""
        cards = np.array(self._cards_by_node(parts))
        links = [self.nic_link(part) for part in parts]
        ends = [part.nodes * self._cards(part) for part in parts]
        rate = np.repeat([link.bandwidth for link in links], ends)
        latency = np.repeat([link.latency.value for link in links], ends)
        return Ports(int(cards.sum()), rate, latency, cards)


@dataclass(frozen=True, slots=True)
class _UsedNode:
    """A node and how many of its parts a cluster uses, as a cache key."""

    node: Node
    nics: int
    gpus: int | None
    host: bool

    def __hash__(self) -> int:
        # A node's mappings cannot be hashed; equality compares all fields.
        return hash((self.node.name, self.nics, self.gpus, self.host))


# Cached, because studies build clusters of the same nodes many times, and the graphs of the nodes
# take most of the time.
@lru_cache(maxsize=8)
def _graph(used: _UsedNode) -> NodeGraph:
    return NodeGraph(used.node, used.nics, used.gpus, host=used.host)


def build_cluster(config: ClusterConfig) -> Cluster:
    """Return the cluster that ``config`` describes.

    Raises DpsimError if its network does not connect it.
    """
    return config.build()


def _gigabits(rate: float) -> str:
    """Return a card's B/s in the unit of cloud providers."""
    return f"{rate * 8e-9:.4g} Gbit/s"


def _check_gpus(node: Node, gpus: int | None) -> None:
    if gpus is not None and gpus > node.gpus:
        raise ValueError(
            f"gpus_per_node must be at most the node's {node.gpus} GPUs, but got {gpus}"
        )
