"""A testbed of real processes in a scenario: hosts, rates, racks, and the equivalent cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from pydantic import Field, field_validator, model_validator

from dpsim.base.config import Config
from dpsim.base.units import RATE, BytesPerSecond, human
from dpsim.hardware import Link, SourcedFraction, SourcedRate, nodes
from dpsim.topology.config import ClusterConfig, NodeGroup
from dpsim.topology.fabrics import NetworkConfig, SingleSwitchConfig

if TYPE_CHECKING:
    from dpsim.topology.fabrics import CustomEdge

_HOST = "testbed-host"
# B/s; below, one frame, the limiter's smallest burst, takes too long.
_SLOWEST = 1.25e5
_FASTEST = 1.25e9  # B/s; above, a core cannot move the bytes
_ETHERNET = 14  # header bytes before the IP packet, which the limiter counts too
_IP_AND_TCP = 20 + 20 + 12  # headers with TCP's timestamps


class RacksConfig(Config):
    """Hosts in racks: each rack has a switch, and traffic leaves the rack by its uplink.

    Two racks are joined by one link at the uplink's rate; more racks have uplinks to a switch in
    the middle.
    """

    racks: tuple[tuple[int, ...], ...] = Field(
        default=((0, 1), (2, 3)),
        min_length=2,
        description="The numbers of the hosts in each rack, from 0 on.",
        examples=[[[0, 1], [2, 3]]],
    )
    uplink: BytesPerSecond = Field(
        default=1.25e7,
        description="Rate of each rack's uplink in each direction.",
        examples=["100 Mbit/s"],
    )

    @field_validator("uplink")
    @classmethod
    def _uplink_in_range(cls, rate: float) -> float:
        return _in_range(rate)


class TestbedConfig(Config):
    """A testbed: hosts on one switch or in racks, each with a full-duplex link of limited rate."""

    hosts: int = Field(default=4, ge=1, le=64, description="Number of hosts.")
    rate: tuple[BytesPerSecond, ...] | BytesPerSecond = Field(
        default=1.25e7,
        description=(
            "Rate of each host's link in each direction, 1 Mbit/s to 10 Gbit/s: one value for all "
            "hosts, or a list with one per host."
        ),
        examples=["100 Mbit/s", ["100 Mbit/s", "50 Mbit/s"]],
    )
    mtu: int = Field(default=9000, ge=1280, le=65535, description="Largest IP packet, in bytes.")
    racks: RacksConfig | None = Field(
        default=None,
        description="Racks with limited uplinks; all hosts on one switch if left out.",
    )

    @property
    def rates(self) -> tuple[float, ...]:
        """The rate of each host's link, in B/s."""
        return self.rate if isinstance(self.rate, tuple) else (self.rate,) * self.hosts

    @property
    def switches(self) -> tuple[tuple[int, ...], ...]:
        """The hosts at each switch that has hosts."""
        return self.racks.racks if self.racks else (tuple(range(self.hosts)),)

    @field_validator("rate")
    @classmethod
    def _rate_in_range(cls, rate: float | tuple[float, ...]) -> float | tuple[float, ...]:
        for one in rate if isinstance(rate, tuple) else (rate,):
            _in_range(one)
        return rate

    @model_validator(mode="after")
    def _check_hosts(self) -> Self:
        if isinstance(self.rate, tuple) and len(self.rate) != self.hosts:
            raise ValueError(
                f"rate must be one for all or one for each of {self.hosts} hosts, but got "
                f"{len(self.rate)}"
            )
        if self.racks:
            named = Counter(host for rack in self.racks.racks for host in rack)
            wrong = sorted(
                host
                for host in {*named, *range(self.hosts)}
                if named[host] != 1 or not 0 <= host < self.hosts
            )
            if wrong:
                problem = f"host {wrong[0]} is named {named[wrong[0]]} times"
                raise ValueError(
                    f"racks must name each host from 0 to {self.hosts - 1} once, but {problem}"
                )
        return self

    def cluster(self) -> ClusterConfig:
        """Return the cluster that represents it: host i is node i, with one rank.

        Nodes are the catalogue's ``testbed-host``. Links have the limited rates, of which TCP's own
        bytes reach `goodput_fraction`; racks are switches of a custom network.
        """
        node = nodes()[_HOST]
        network = self._network()
        if len(set(self.rates)) == 1:
            cards = node.nics.model_copy(update={"link": self.link(self.rates[0])})
            node = node.model_copy(update={"nics": cards})
            return ClusterConfig(nodes=self.hosts, node=node, network=network)
        groups = tuple(NodeGroup(node=node, nic=self.link(rate)) for rate in self.rates)
        return ClusterConfig(groups=groups, network=network)

    def link(self, rate: float) -> Link:
        """Return a host's link, limited to ``rate`` B/s."""
        usual = nodes()[_HOST].nics.link
        achievable = SourcedFraction(
            value=goodput_fraction(self.mtu),
            source=f"TCP, IP and Ethernet headers at MTU {self.mtu}",
        )
        limited = SourcedRate.model_validate(
            {"value": f"{rate!r} B/s", "source": "the testbed's limit"}
        )
        name = f"testbed at {in_bits(rate)}"
        return Link(name=name, rate=limited, achievable=achievable, latency=usual.latency)

    def _network(self) -> NetworkConfig:
        if self.racks is None:
            return SingleSwitchConfig(fabric="single-switch")
        from dpsim.topology.fabrics import CustomConfig

        return CustomConfig(fabric="custom", edges=tuple(self._edges(self.racks)))

    def _edges(self, racks: RacksConfig) -> Iterator[CustomEdge]:
        from dpsim.topology.fabrics import CustomEdge

        for rack, members in enumerate(racks.racks):
            switch = f"rack{rack}"
            for host in members:
                link = self.link(self.rates[host])
                yield CustomEdge(between=(f"node{host}/nic0", switch), link=link)

        # No latency, as in `cluster_over_transport`: a message's latency is on the hosts' links.
        uplink = self.link(racks.uplink)
        if len(racks.racks) == 2:
            yield CustomEdge(between=("rack0", "rack1"), link=uplink, latency=0.0)
            return
        for rack in range(len(racks.racks)):
            yield CustomEdge(between=(f"rack{rack}", "core"), link=uplink, latency=0.0)


def goodput_fraction(mtu: int = 9000) -> float:
    """Return the share of a link's rate that remains for a TCP stream's data after headers.

    It is 0.9927 at MTU 9000 and 0.956 at 1500.
    """
    return (mtu - _IP_AND_TCP) / (mtu + _ETHERNET)


def _in_range(rate: float) -> float:
    if not _SLOWEST <= rate <= _FASTEST:
        raise ValueError(f"must be from 1 Mbit/s to 10 Gbit/s, but got {in_bits(rate)}")
    return rate


def in_bits(rate: float) -> str:
    """Return a rate in B/s as text in bit/s: ``100 Mbit/s``."""
    return human(rate * 8, RATE).replace("B/s", "bit/s")
