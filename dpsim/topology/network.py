"""The interface of a network for timing: capacities, and routes as lists of capacities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray

# Bytes: messages take the path that is fastest for this size.
ROUTED_BY = 2**20


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """The routes of transfers.

    ``links`` (transfers, hops) are capacity numbers, -1 where a route is shorter; ``latency`` in s.

    A transfer of rate r takes r times its ``share`` of a link (of the shape of ``links``; None: the
    full rate everywhere). So several transfers with the same start and end can be one: a push
    spread evenly over k servers has share 1 on its worker's own links and 1/k on each server's.
    This is exact if the k parts would end together, as with equal servers; otherwise all parts take
    as long as the slowest.
    """

    links: IntArray
    latency: FloatArray
    share: FloatArray | None = None

    def take(self, transfers: IntArray) -> Routes:
        """Return the routes of some of the transfers."""
        share = None if self.share is None else self.share[transfers]
        return Routes(self.links[transfers], self.latency[transfers], share)

    def loads(self, nbytes: IntArray | float, capacities: int) -> FloatArray:
        """Return the bytes on each of ``capacities`` capacities.

        Each transfer moves ``nbytes``, one number for all or one each.
        """
        loads = np.zeros(capacities + 1)  # the last is for -1, no link
        share = np.ones(self.links.shape) if self.share is None else self.share
        np.add.at(loads, self.links, share * np.reshape(nbytes, (-1, 1)))
        return loads[:-1]


class Network(Protocol):
    """Ranks joined by capacities, in bytes per second.

    A capacity is a direction of a link, or a device with a limit of its own.
    """

    @property
    def ranks(self) -> int:
        """The number of ranks."""

    @property
    def capacities(self) -> FloatArray:
        """Bytes per second of each capacity."""

    def routes(self, source: IntArray, destination: IntArray) -> Routes:
        """Return the route of each pair of ranks; both arrays have one entry per transfer."""

    def link_name(self, link: int) -> str:
        """Return a capacity's display name, such as ``node3/gpu0->pcie-switch0``."""


@dataclass(frozen=True, slots=True)
class UniformSwitch:
    """Ranks on one non-blocking full-duplex switch.

    Each rank has ``rate`` B/s in each direction; a message takes ``latency`` s between any two.
    Capacity i is the link out of rank i, capacity ``ranks + i`` the link into it.
    """

    ranks: int
    rate: float
    latency: float

    @property
    def capacities(self) -> FloatArray:
        return np.full(2 * self.ranks, self.rate)

    def routes(self, source: IntArray, destination: IntArray) -> Routes:
        """Return the links out of the source and into the destination."""
        links = np.stack([source, self.ranks + destination], axis=1)
        return Routes(links, np.full(len(source), self.latency))

    def link_name(self, link: int) -> str:
        """Return ``rank5->switch`` or ``switch->rank5``."""
        if link < self.ranks:
            return f"rank{link}->switch"
        return f"switch->rank{link - self.ranks}"
