"""The dragonfly: groups of fully joined routers, groups joined by global links; minimal routing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from dpsim.base.arrays import IntArray
from dpsim.base.units import BytesPerSecond, Seconds
from dpsim.topology.fabrics.ecmp import HASHED, Spread
from dpsim.topology.fabrics.fabric import Fabric, Ports, Switched, TieredConfig


class Dragonfly(Switched):
    """``groups`` groups of ``routers`` routers, each with ``global_links`` to other groups.

    All routers of a group are joined. Each pair of groups has floor(routers global_links / (groups
    - 1)) links, spread over the routers in turn; two links between the same routers are one of
    twice the rate. Routes are minimal: at most one local link, one global link and one local link;
    a hash chooses among the global links that need the fewest local links. Capacities: out of the
    ports, into them, the local links group by group, the global links. Source: Kim, Dally, Scott
    and Abts, Technology-Driven, Highly-Scalable Dragonfly Topology, ISCA 2008.
    """

    def __init__(
        self,
        ports: Ports,
        *,
        groups: int,
        routers: int,
        ports_per_router: int,
        global_links: int,
        switch_latency: float = 0.0,
        global_latency: float = 0.0,
        local_rate: float | None = None,
        global_rate: float | None = None,
        spread: Spread = HASHED,
    ) -> None:
        assert ports.count <= groups * routers * ports_per_router
        self.groups = groups
        self.routers = routers
        self.spread = spread
        self.router_of = np.arange(ports.count) // ports_per_router
        local = groups * routers * (routers - 1)
        self._local = 2 * ports.count  # the first local link
        self._global = self._local + local
        self._number_global_links(routers * global_links // max(groups - 1, 1), global_links)

        fastest = float(ports.rates.max())
        trunks = self._global_count * (global_rate or fastest)
        super().__init__(
            ports,
            np.append(np.full(local, local_rate or fastest), trunks),
            np.append(np.full(local, switch_latency), np.full(len(trunks), global_latency)),
        )

    def _number_global_links(self, links: int, per_router: int) -> None:
        """Number the ``links`` global links between each pair of groups.

        ``_exits[x, y, j]`` is the router of group x with the j-th link to group y.
        """
        groups = np.arange(self.groups)
        apart = (groups[None, :] - groups[:, None] - 1) % self.groups  # 0 for the next group
        # A group's links go to the other groups in turn, and fill router after router.
        turn = np.arange(links)[None, None, :]
        place = turn * (self.groups - 1) + apart[:, :, None]
        self._exits = place // per_router + groups[:, None, None] * self.routers

        # Links between the same two routers are merged into one with the sum of their rates.
        out = ~np.eye(self.groups, dtype=bool)
        # entries[x, y, j] is the router of group y at the other end. `ends` has a row for each link
        # of each ordered pair of groups, because both directions are capacities.
        entries = np.swapaxes(self._exits, 0, 1)
        ends = np.stack([self._exits[out], entries[out]], axis=-1).reshape(-1, 2)
        self._global_ends, number, self._global_count = np.unique(
            ends, axis=0, return_inverse=True, return_counts=True
        )
        self._global_of = np.zeros(self._exits.shape, dtype=np.int64)
        self._global_of[out] = number.reshape(-1, links)

    def paths(self, source: IntArray, destination: IntArray) -> IntArray:
        """Return the source's link, up to three links between routers, and the destination's."""
        first, last = self.router_of[source], self.router_of[destination]
        first_group, last_group = first // self.routers, last // self.routers
        apart = first_group != last_group
        # Inside a group the first local link reaches the last router, and there is no second one.
        leave, enter = last, last  # the routers at the two ends of the global link
        over = np.full(len(source), -1)
        if apart.any():
            link = self._nearest_link(source, destination)
            leave = np.where(apart, self._exits[first_group, last_group, link], last)
            enter = np.where(apart, self._exits[last_group, first_group, link], last)
            number = self._global_of[first_group, last_group, link]
            over = np.where(apart, self._global + number, -1)
        hops = [
            source,
            self._local_link(first, leave),
            over,
            self._local_link(enter, last),
            self.ports.count + destination,
        ]
        return np.stack(hops, axis=1)

    def _nearest_link(self, source: IntArray, destination: IntArray) -> IntArray:
        """Return which of the global links between two groups each pair takes."""
        first, last = self.router_of[source], self.router_of[destination]
        exits = self._exits[first // self.routers, last // self.routers]
        entries = self._exits[last // self.routers, first // self.routers]
        local_links = (exits != first[:, None]).astype(np.int64) + (entries != last[:, None])
        # Number the links that need the fewest local ones 1, 2, ... for the spread to choose.
        fewest = local_links == local_links.min(axis=1, keepdims=True)
        numbers = fewest.cumsum(axis=1)
        chosen = self.spread.choose(source, destination, numbers[:, -1])
        # The first column whose number exceeds the choice is the chosen link.
        return np.asarray((numbers > chosen[:, None]).argmax(axis=1))

    def _local_link(self, router: IntArray, other: IntArray) -> IntArray:
        """Return the link from each router to another one of its group; -1 to itself."""
        group, a = np.divmod(router, self.routers)
        b = other % self.routers
        first = self._local + (group * self.routers + a) * (self.routers - 1)
        return np.where(router == other, -1, first + b - (b > a))

    def switch_of(self, port: int) -> str:
        """Return its router."""
        return f"router{self.router_of[port]}"

    def trunk(self, number: int) -> tuple[str, str]:
        """Return two routers, of the same group or of different ones."""
        local = self._global - self._local
        if number < local:
            router, other = divmod(number, self.routers - 1)
            group, a = divmod(router, self.routers)
            return f"router{router}", f"router{group * self.routers + other + (other >= a)}"
        a, b = self._global_ends[number - local]
        return f"router{a}", f"router{b}"


class DragonflyConfig(TieredConfig):
    """Groups of fully joined routers, groups joined by global links."""

    own_rates: ClassVar[tuple[str, ...]] = ("local_rate", "global_rate")
    own_latencies: ClassVar[tuple[str, ...]] = (*TieredConfig.own_latencies, "global_latency")

    fabric: Literal["dragonfly"] = Field(
        description="Groups of fully connected routers, with global links between groups."
    )
    groups: PositiveInt | None = Field(
        default=None, description="Number of groups; as many as the network cards need if left out."
    )
    routers: PositiveInt = Field(default=4, description="Routers in each group.")
    ports_per_router: PositiveInt | None = Field(
        default=None,
        description="Network cards per router; half the group's routers if left out (balanced).",
    )
    global_links: PositiveInt | None = Field(
        default=None,
        description=(
            "Links from each router to other groups; half the number of routers in a group if "
            "left out (balanced)."
        ),
    )
    local_rate: BytesPerSecond | None = Field(
        default=None, description="Rate of a link inside a group; the network card's if left out."
    )
    global_rate: BytesPerSecond | None = Field(
        default=None, description="Rate of a global link; the network card's if left out."
    )
    global_latency: Seconds = Field(
        default=1.5e-6,
        description="Latency of a global link; if left out 1.5 us (assumed, a long optical cable).",
    )

    def _sizes(self, ports: int) -> tuple[int, int, int]:
        """Return groups, ports per router and global links per router for ``ports`` ports."""
        # The paper's balance, a = 2 p = 2 h: a routers per group, p ports and h global links each.
        balanced = max(self.routers // 2, 1)
        per_router = self.ports_per_router or balanced
        links = self.global_links or balanced
        groups = self.groups or -(-ports // (self.routers * per_router))
        return groups, per_router, links

    def check(self, cards: Sequence[int]) -> None:
        """Raise ValueError if there is no room for all cards, or too few global links."""
        count = sum(cards)
        groups, per_router, links = self._sizes(count)
        room = groups * self.routers * per_router
        if count > room:
            raise ValueError(
                f"groups x routers x ports_per_router must be at least the {count} network cards, "
                f"but got {groups} x {self.routers} x {per_router} = {room}"
            )
        if self.routers * links < groups - 1:
            raise ValueError(
                f"routers x global_links must be at least {groups - 1}, a link to each other "
                f"group, but got {self.routers} x {links} = {self.routers * links}"
            )

    def fabric_of(self, ports: Ports) -> Fabric:
        """Return the dragonfly of these sizes."""
        groups, per_router, links = self._sizes(ports.count)
        return Dragonfly(
            ports,
            groups=groups,
            routers=self.routers,
            ports_per_router=per_router,
            global_links=links,
            switch_latency=self.switch_latency,
            global_latency=self.global_latency,
            local_rate=self.local_rate,
            global_rate=self.global_rate,
            spread=self.spread,
        )
