"""The interface of a fabric, and the part of a scenario that describes one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, NonNegativeInt, PositiveInt

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.config import Config
from dpsim.base.units import Seconds
from dpsim.hardware import MOST_DEVICES, LinkRef
from dpsim.topology.fabrics.ecmp import Spread
from dpsim.topology.network import Routes

if TYPE_CHECKING:
    import networkx as nx

    from dpsim.topology.fabrics.edge import CustomEdge


@dataclass(frozen=True, eq=False)
class Ports:
    """The ends of a fabric, one for each network card, node by node.

    There are ``count`` ports, each of ``rate`` B/s in each direction, on a link of ``latency`` s.
    Rate and latency are one value for all ports, or one for each. ``cards`` is the number of ports
    of each node; by default one.
    """

    count: int
    rate: float | FloatArray
    latency: float | FloatArray
    cards: IntArray | None = None

    @cached_property
    def rates(self) -> FloatArray:
        """B/s of each port."""
        # A view, because a million ports may share one number.
        return np.broadcast_to(np.asarray(self.rate, dtype=float), self.count)

    @cached_property
    def latencies(self) -> FloatArray:
        """Seconds of each port's link."""
        return np.broadcast_to(np.asarray(self.latency, dtype=float), self.count)

    @cached_property
    def node_of(self) -> IntArray:
        """The node of each port."""
        if self.cards is None:
            return np.arange(self.count)
        return np.repeat(np.arange(len(self.cards)), self.cards)

    @cached_property
    def card_of(self) -> IntArray:
        """Each port's number in its node: 0 for nic0."""
        if self.cards is None:
            return np.zeros(self.count, dtype=np.int64)
        first = np.cumsum(self.cards) - self.cards
        return np.arange(self.count) - first[self.node_of]

    def shown(self, end: str) -> str:
        """Return the display name of an end: a port is its node's card, ``node3/nic0``."""
        if not end.startswith("port"):
            return end
        port = int(end[4:])
        return f"node{self.node_of[port]}/nic{self.card_of[port]}"


class Fabric(ABC):
    """Switches and links between ports; each direction of a link is a capacity.

    ``capacities`` (B/s) and ``latencies`` (s) are by number. Ports are named ``port<p>``; other
    names are switches. ``dims``: the ports in each dimension if they form a grid, the last one
    fastest.
    """

    dims: tuple[int, ...] | None = None

    def __init__(self, ports: Ports, capacities: FloatArray, latencies: FloatArray) -> None:
        self.ports = ports
        self.capacities = capacities
        self.latencies = latencies

    @abstractmethod
    def paths(self, source: IntArray, destination: IntArray) -> IntArray:
        """Return the capacities on the path of each pair of different ports, in order.

        The shape is (pairs, hops); -1 stands for none. The path of one pair does not depend on the
        others.
        """

    @abstractmethod
    def link(self, number: int) -> tuple[str, str]:
        """Return the two ends of a capacity."""

    def routes(self, source: IntArray, destination: IntArray) -> Routes:
        """Return the route of each pair of different ports; latency is the sum over its links."""
        links = self.paths(source, destination)
        seconds = np.append(self.latencies, 0.0)  # the last entry is link -1: none
        latency = np.zeros(len(links))
        # Hop by hop, so that a sum does not depend on the width of the table.
        for hop in range(links.shape[1]):
            latency += seconds[links[:, hop]]
        return Routes(links, latency)

    def graph(self) -> nx.DiGraph[str]:
        """Return the fabric as a graph with ``capacity`` (B/s), ``latency`` (s) and ``number``."""
        import networkx as nx

        graph: nx.DiGraph[str] = nx.DiGraph()
        for number, capacity in enumerate(self.capacities.tolist()):
            latency = float(self.latencies[number])
            graph.add_edge(*self.link(number), capacity=capacity, latency=latency, number=number)
        return graph


class Switched(Fabric):
    """Ports on switches: capacities begin with the links out of each port, then into each port.

    ``rates`` (B/s) and ``latencies`` (s) are of the links between switches. A subclass with several
    switches overrides `switch_of` and `trunk`.
    """

    def __init__(self, ports: Ports, rates: ArrayLike = (), latencies: ArrayLike = ()) -> None:
        super().__init__(
            ports,
            np.concatenate([np.tile(ports.rates, 2), rates]),
            np.concatenate([np.tile(ports.latencies, 2), latencies]),
        )

    def link(self, number: int) -> tuple[str, str]:
        """Return the two ends of a capacity: a port and its switch, or two switches."""
        count = self.ports.count
        if number >= 2 * count:
            return self.trunk(number - 2 * count)
        at = number % count
        ends = (f"port{at}", self.switch_of(at))
        return ends if number < count else ends[::-1]

    def switch_of(self, port: int) -> str:
        """Return the switch of a port; here the only one."""
        return "switch"

    def trunk(self, number: int) -> tuple[str, str]:
        """Return the two ends of a link between switches, numbered from 0."""
        raise NotImplementedError


class FabricConfig(Config, ABC):
    """The fields of every network: the cards at its ends."""

    own_rates: ClassVar[tuple[str, ...]] = ()
    """Fields with rates of links that are independent of the cards' (B/s)."""
    own_latencies: ClassVar[tuple[str, ...]] = ()
    """Fields with the latency of links between switches (s)."""

    nic: LinkRef | None = Field(
        default=None,
        description="Each network card's link: a catalogue name; the node's own if left out.",
    )
    nics_per_node: PositiveInt | None = Field(
        default=None,
        le=MOST_DEVICES,
        description="Network cards in use per node; the node's own if left out.",
    )
    duplex: float = Field(
        default=1.0,
        ge=0.5,
        le=1,
        description=(
            "Share of its rate that each direction of a network card's link keeps while both "
            "carry traffic: 1 is full duplex, 0.5 means they take turns."
        ),
    )

    def check(self, cards: Sequence[int]) -> None:
        """Raise ValueError if the fabric cannot join nodes with these numbers of network cards."""

    @abstractmethod
    def fabric_of(self, ports: Ports) -> Fabric:
        """Return the fabric that joins ``ports``."""

    @property
    def links_file(self) -> str | None:
        """The file that lists its links; None without one."""
        return None

    @property
    def listed_edges(self) -> tuple[CustomEdge, ...]:
        """Its links, if they are listed one by one."""
        return ()

    @property
    def reduces(self) -> bool:
        """Whether the switches reduce data that passes through them."""
        return False


class SwitchedConfig(FabricConfig):
    """A network of switches."""

    in_network_reduction: bool = Field(
        default=False,
        description=(
            "Whether switches can reduce and multicast data in the network, as with SHARP."
        ),
    )

    @property
    def reduces(self) -> bool:
        return self.in_network_reduction


class TieredConfig(SwitchedConfig):
    """A network of several switches, with links between them and a choice of ways."""

    own_latencies: ClassVar[tuple[str, ...]] = ("switch_latency",)

    switch_latency: Seconds = Field(
        default=0.5e-6,
        description=(
            "Latency of a link between two switches; if left out, 0.5 us is assumed (a "
            "cut-through switch and its cable)."
        ),
    )
    routing: Literal["ecmp", "destination"] = Field(
        default="ecmp",
        description=(
            "Choice between paths of equal cost. ecmp hashes both ports; destination uses the "
            "destination's number, as InfiniBand's static routes do, so that regular patterns "
            "share no link."
        ),
    )
    ecmp_seed: NonNegativeInt = Field(
        default=0, description="Seed of the hash that spreads flows over paths of equal cost."
    )

    @property
    def spread(self) -> Spread:
        """The spread of flows over equal paths."""
        return Spread(self.ecmp_seed if self.routing == "ecmp" else None)
