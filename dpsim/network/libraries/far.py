"""Extra time on routes that are longer than any on which a library was measured.

A library's constants include the hops of networks inside one building. Between sites the
propagation delay alone is longer, so the latency beyond a measured hop is added for each message in
a row.
"""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.collectives import tree_edges
from dpsim.topology import Network


def around_rings(network: Network, heads: IntArray, steps: int, usual: float) -> float:
    """Return the extra seconds of ``steps`` messages in a row around a ring of nodes.

    ``heads`` (rings, nodes) has a rank of each node in their order, ``usual`` are the seconds of a
    measured hop. A ring is as slow as the slowest of its paths.
    """
    longer = _extra(network, heads, np.roll(heads, -1, axis=1), usual)
    turns, rest = divmod(steps, heads.shape[1])
    twice = np.concatenate([np.zeros((len(longer), 1)), longer, longer], axis=1).cumsum(axis=1)
    windows = twice[:, rest:] - twice[:, : twice.shape[1] - rest]
    return float((turns * longer.sum(axis=1) + windows.max(axis=1)).max())


def along_trees(network: Network, heads: IntArray, usual: float) -> float:
    """Return the extra seconds of an all-reduce up and down two trees of nodes."""
    nodes = heads.shape[1]
    slowest = 0.0
    for child, parent in zip(*(np.split(ends, 2) for ends in tree_edges(nodes)), strict=True):
        longer = _extra(network, heads[:, child], heads[:, parent], usual)
        above = np.zeros(heads.shape)
        for _ in range(nodes.bit_length()):  # no tree is deeper
            above[:, child] = longer + above[:, parent]
        slowest = max(slowest, 2 * float(above.max()))
    return slowest


def to_partners(network: Network, heads: IntArray, shifts: list[int], usual: float) -> float:
    """Return the extra seconds of one message after another to the nodes ``shifts`` further on."""
    extras = (_extra(network, heads, np.roll(heads, -shift, axis=1), usual) for shift in shifts)
    return sum(float(longer.max()) for longer in extras)


def _extra(network: Network, source: IntArray, destination: IntArray, usual: float) -> FloatArray:
    latency = network.routes(source.ravel(), destination.ravel()).latency
    return np.maximum(latency - usual, 0.0).reshape(source.shape)
