"""Ring all-reduce.

A ring reduce-scatter, then a ring all-gather; every rank communicates only with its neighbours.

On average a rank sends as much as in the master-worker algorithm, but there is no bottleneck. Exact
for any m >= 1 and any size: 2 (m-1) (o + alpha + c beta) + (m-1) c gamma, c the largest chunk,
ceil(n / m) elements: that chunk goes round the ring twice and every hop waits for the previous one.
With k channels, k rings run side by side, each on its own part of the vector, and share links:
2 (m-1) (o + alpha + k c beta) + (m-1) c gamma, c = S / (k m); exact if k m divides the elements, a
bound otherwise, because a ring of shorter chunks leaves room for the others. Each channel enters a
node at another GPU, so that on a cluster each leaves through another network card, as in NCCL on
nodes with several. Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 69,
2009.
"""

from functools import partial

import numpy as np

from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout, always_exact
from dpsim.collectives.rings import Rings
from dpsim.collectives.schedule import Chunking, Schedule, ranks_array


def with_channels(channels: int) -> Algorithm:
    """Return the ring with ``channels`` channels."""
    assert channels >= 1, f"a ring has at least 1 channel, but got {channels}"
    return Algorithm(
        "all-reduce",
        "ring" if channels == 1 else f"ring-{channels}-channels",
        "every rank passes chunks to its neighbour: nobody sends more than 2 (m-1)/m of the vector",
        "Patarasuk and Yuan, JPDC 69, 2009",
        partial(compile_ring, channels),
        partial(exact_time, channels),
        always_exact if channels == 1 else has_equal_chunks,
    )


def compile_ring(channels: int, layout: RankLayout) -> Schedule:
    """Compile reduce-scatter and all-gather: m-1 rounds each, a chunk per rank and channel."""
    ranks = layout.ranks
    rank = np.tile(ranks_array(ranks), channels)
    channel = np.repeat(ranks_array(channels), ranks)

    # Channel c enters each node at its GPU c, so channels leave it by different network cards.
    node = layout.per_node if layout.per_node and ranks % layout.per_node == 0 else 1
    first, local = rank // node * node, rank % node
    place = first + (local - channel) % node
    following = (place + 1) % ranks
    successor = following // node * node + (following + channel) % node

    rings = Rings(rank, place, successor, ranks, base=channel * ranks, channel=channel)
    # Each rank begins with the block of its own number, as in textbooks.
    phases = rings.reduce_scatter(ahead=1) + rings.all_gather(ahead=1)
    return Schedule("all-reduce", "ring", ranks, ranks * channels, phases)


def exact_time(channels: int, layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: 2 (m-1) (o + alpha + k c beta) + (m-1) c gamma."""
    both_ways = 2 * costs.message(channels * chunking.largest)
    return (layout.ranks - 1) * (both_ways + chunking.largest * costs.gamma)


def has_equal_chunks(layout: RankLayout, chunking: Chunking, costs: Costs) -> bool:
    """Return whether all chunks are equal, so that the time with several channels is exact."""
    return chunking.elements % chunking.chunks == 0


RING = with_channels(1)
