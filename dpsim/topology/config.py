"""The ``cluster`` part of a scenario, and the cluster that it describes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from dpsim.config import Config
from dpsim.hardware import Gpu, GpuRef, LinkRef, NodeRef
from dpsim.topology.cluster import Cluster
from dpsim.topology.fabric import Fabric, LeafSpine, Ports, SingleSwitch
from dpsim.topology.node_graph import NodeGraph


class _NetworkConfig(Config):
    nic: LinkRef | None = Field(default=None, description="Each network card's link: a catalogue name; the node's own if left out.")
    nics_per_node: PositiveInt | None = Field(
        default=None, description="Network cards in use per node; the node's own if left out."
    )

    @abstractmethod
    def fabric_of(self, ports: Ports, nics: int) -> Fabric:
        """The switches between ``ports``, of which each node has ``nics``."""


class SingleSwitchConfig(_NetworkConfig):
    """All nodes on one non-blocking switch."""

    fabric: Literal["single-switch"] = Field(description="All nodes on one non-blocking switch.")

    def fabric_of(self, ports: Ports, nics: int) -> Fabric:
        """One switch."""
        return SingleSwitch(ports)


class LeafSpineConfig(_NetworkConfig):
    """Nodes on leaf switches that are joined by spines."""

    fabric: Literal["leaf-spine"] = Field(description="Nodes on leaf switches, leaves joined by spines.")
    nodes_per_leaf: PositiveInt = Field(default=16, description="Nodes on each leaf switch.")
    spines: PositiveInt = Field(default=4, description="Spine switches; each leaf has a link to each.")
    oversubscription: float = Field(default=1.0, ge=1, description="A leaf's rate to its nodes over its rate to the spines.")

    def fabric_of(self, ports: Ports, nics: int) -> Fabric:
        """Leaves of ``nodes_per_leaf`` nodes; ports come node by node."""
        per_leaf = self.nodes_per_leaf * nics
        return LeafSpine(ports, per_leaf=per_leaf, spines=self.spines, oversubscription=self.oversubscription)


NetworkConfig = Annotated[SingleSwitchConfig | LeafSpineConfig, Field(discriminator="fabric")]


class ClusterConfig(Config):
    """The machines and what joins them."""

    nodes: PositiveInt = Field(default=1, description="Number of nodes.")
    node: NodeRef = Field(description="The kind of node: a catalogue name, or its description.")
    gpu: GpuRef | None = Field(default=None, description="The GPUs in the nodes, where not the node's own.")
    gpus_per_node: PositiveInt | None = Field(default=None, description="GPUs in use per node; all of them if left out.")
    network: NetworkConfig = Field(default=SingleSwitchConfig(fabric="single-switch"), description="What joins the nodes.")

    @model_validator(mode="after")
    def _enough_gpus(self) -> ClusterConfig:
        if self.gpus_per_node is not None and self.gpus_per_node > self.node.gpus:
            raise ValueError(f"gpus_per_node must be at most the node's {self.node.gpus} GPUs, but got {self.gpus_per_node}")
        return self

    @property
    def accelerator(self) -> Gpu:
        """The kind of GPU that computes."""
        return self.gpu or self.node.gpu

    @property
    def ranks(self) -> int:
        """The number of GPUs in use."""
        return self.nodes * (self.gpus_per_node or self.node.gpus)


def build_cluster(config: ClusterConfig) -> Cluster:
    """The cluster that ``config`` describes."""
    network = config.network
    node = NodeGraph(config.node, network.nics_per_node, config.gpus_per_node)
    if config.nodes == 1:
        return Cluster(node, 1, None)
    nic = network.nic or config.node.nics.link
    nics = len(node.nics)
    ports = Ports(config.nodes * nics, nic.bandwidth, nic.latency.value)
    return Cluster(node, config.nodes, network.fabric_of(ports, nics))
