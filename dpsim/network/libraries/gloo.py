"""Gloo's all-reduce and all-gather, as torch.distributed runs them on CPUs over TCP.

A ring towards rank - 1: the vector is cut into max(2 m, ceil(S / 1 MiB)) segments, rounded up to a
multiple of the m ranks; two of them are in flight. Each of the 2 (m-1) steps passes on one rank's
share, k segments of c bytes. The first segment takes alpha + c beta; each other takes the longer of
c beta (the link is busy) and (alpha + c beta) / 2 (two are in flight). alpha is 150 us, the time of
gloo and the kernel for a message, or the network's latency if that is longer.

Measured over predicted on 2, 4 and 8 hosts joined by 50 to 400 Mbit/s: 0.96 at 256 KiB, 1.00 at 1
MiB, 1.01 at 4 and 16 MiB. The model does not cover sizes below 64 KiB, where the hosts' CPUs
dominate, or copies between GPUs and hosts. Source: pytorch/gloo, gloo/allreduce.cc (ring,
segments), and that measurement.

An all-gather is the second half of an all-reduce, m-1 steps. A reduce-scatter takes as long as an
all-reduce, because torch runs an all-reduce and keeps a part. Both were compared with an all-reduce
only on four ranks of one host (torch 2.13): 0.54 and 1.03 of it at 1 MiB, 0.67 and 1.25 at 16 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.collectives import Traffic, algorithm, in_groups, ranks_array, traffic
from dpsim.network.collective_models import CollectiveModel, CommonFinish
from dpsim.network.maxmin import max_min_rates
from dpsim.network.rounds import RoundsModel
from dpsim.topology import Network

if TYPE_CHECKING:
    from dpsim.collectives import Groups

# By operation: the collective that the ring runs, and how often data goes round it.
_RINGS = {
    "all-reduce": ("all-reduce", 2),
    "reduce-scatter": ("all-reduce", 2),
    "all-gather": ("all-gather", 1),
}

MESSAGE_SECONDS = 150e-6
_SEGMENT = 2**20  # bytes


class GlooModel(CommonFinish):
    """The model of one of gloo's ``operations``."""

    operations: ClassVar[tuple[str, ...]] = tuple(_RINGS)
    compared: ClassVar[str] = "of gloo hosts of 50 to 400 Mbit/s were measured, and no GPUs"

    def __init__(
        self,
        network: Network,
        *,
        operation: str = "all-reduce",
        itemsize: int = 4,
        groups: Groups | None = None,
    ) -> None:
        self.network = network
        self.itemsize = itemsize
        self.operation = operation
        carried, self._rounds = _RINGS[operation]
        ring = algorithm("ring", carried)
        self.members = ranks_array(network.ranks)[None]
        if groups is not None:
            ring = in_groups(ring, groups)
            self.members = groups.members(network.ranks)
        self._ring = RoundsModel(ring.schedule(network.ranks), network, itemsize=itemsize)

    def _loads(self, nbytes: int, name: str) -> FloatArray:
        """Return the ring's loads."""
        return self._ring.loads(nbytes)

    def crossings(self) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        return self._ring.crossings()

    def of_group(self, ranks: IntArray) -> CollectiveModel:
        """Return the model of the group's ring."""
        from dpsim.network.libraries.one_group import OneGroup

        return OneGroup(self, ranks, self._ring.of_group(ranks).loads)

    def traffic(self, nbytes: int) -> Traffic:
        return traffic(self._ring.schedule, nbytes, self.itemsize)

    def _time(self, nbytes: int) -> tuple[float, str]:
        m = int(self.members.shape[1])
        if m == 1:
            return 0.0, "ring"
        alpha, rate = self._slowest
        segments = segment_count(m, nbytes)
        each, piece = segments // m, nbytes / segments / rate
        step = alpha + piece + (each - 1) * max(piece, (alpha + piece) / 2)
        return self._rounds * (m - 1) * step, "ring"

    @cached_property
    def _slowest(self) -> tuple[float, float]:
        """The slowest hop of the rings towards rank - 1: seconds without bytes, and B/s."""
        before = np.roll(self.members, 1, axis=1)
        routes = self.network.routes(self.members.ravel(), before.ravel())
        rates = max_min_rates(routes.links, self.network.capacities)
        return max(MESSAGE_SECONDS, float(routes.latency.max())), float(rates.min())


def segment_count(ranks: int, nbytes: int) -> int:
    """Return the number of segments of a vector of ``nbytes`` in gloo: a multiple of ``ranks``."""
    wanted = max(2 * ranks, -(-nbytes // _SEGMENT))
    return -(-wanted // ranks) * ranks
