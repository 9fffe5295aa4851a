"""The order of a node's GPUs in which a ring through them has the widest narrowest hop."""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import FloatArray


def ring_order(bandwidth: FloatArray) -> list[int]:
    """Places 0 .. n-1 in an order in which a ring through them has its slowest hop fastest.

    The order starts at 0. ``bandwidth`` (n, n) is B/s from place to place, each route alone. Of
    equally good orders the first in counting order is taken, so that where all hops are alike the
    order stays as it is. Exact: a depth-first search for a Hamiltonian cycle at each threshold,
    which is quick for the 2 to 16 GPUs of a node.
    """
    places = len(bandwidth)
    # Up to three places there is one ring, in whichever order.
    if places <= 3:
        return list(range(places))
    # A ring is as slow as its slowest hop: try the fastest threshold first.
    thresholds = np.unique(bandwidth[~np.eye(places, dtype=bool)])
    for threshold in thresholds[::-1]:
        fast = bandwidth >= threshold
        if not (fast.sum(axis=1) >= 2).all():
            continue  # a place with no fast hop, but to itself
        order = _cycle(fast, [0])
        if order is not None:
            return order
    raise AssertionError("at the lowest threshold every order is a ring")


def _cycle(
    fast: np.ndarray[tuple[int, int], np.dtype[np.bool_]], path: list[int]
) -> list[int] | None:
    """The first order that goes on from ``path`` by fast hops and closes to a ring, if any."""
    last = path[-1]
    if len(path) == len(fast):
        return path if fast[last, path[0]] else None
    for place in range(len(fast)):
        if place in path or not fast[last, place]:
            continue
        order = _cycle(fast, [*path, place])
        if order is not None:
            return order
    return None
