"""Extra time of routes that are longer than any that a library was measured on.

A library's constants include the hops of the networks on which it was measured, inside one
building. Between sites the propagation delay alone is longer: a route's latency beyond a measured
hop counts for each message in a row.
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
    longer = _longer(network, heads, np.roll(heads, -1, axis=1), usual)
    turns, rest = divmod(steps, heads.shape[1])
    twice = np.concatenate([np.zeros((len(longer), 1)), longer, longer], axis=1).cumsum(axis=1)
    windows = twice[:, rest:] - twice[:, : twice.shape[1] - rest]
    return float((turns * longer.sum(axis=1) + windows.max(axis=1)).max())


def along_trees(network: Network, heads: IntArray, usual: float) -> float:
    """Return the extra seconds up and down the two trees of nodes that share an all-reduce."""
    nodes = heads.shape[1]
    slowest = 0.0
    for child, parent in zip(*(np.split(ends, 2) for ends in tree_edges(nodes)), strict=True):
        longer = _longer(network, heads[:, child], heads[:, parent], usual)
        above = np.zeros(heads.shape)
        for _ in range(nodes.bit_length()):  # no tree is deeper
            above[:, child] = longer + above[:, parent]
        slowest = max(slowest, 2 * float(above.max()))
    return slowest


def to_partners(network: Network, heads: IntArray, shifts: list[int], usual: float) -> float:
    """Return the extra seconds of messages to the nodes ``shifts`` further on, one by one."""
    ways = (_longer(network, heads, np.roll(heads, -shift, axis=1), usual) for shift in shifts)
    return sum(float(longer.max()) for longer in ways)


def _longer(network: Network, source: IntArray, destination: IntArray, usual: float) -> FloatArray:
    latency = network.routes(source.ravel(), destination.ravel()).latency
    return np.maximum(latency - usual, 0.0).reshape(source.shape)
