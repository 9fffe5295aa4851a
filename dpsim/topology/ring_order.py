"""The order of a node's GPUs in which a ring through them has the widest narrowest hop."""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import FloatArray


def ring_order(bandwidth: FloatArray) -> list[int]:
    """Places 0 .. n-1 in an order that starts at 0, closes to a ring, and whose slowest hop is as
    fast as can be.

    ``bandwidth`` (n, n) is B/s from place to place, each route alone. Of equally good orders the
    first in counting order is taken, so that where all hops are alike the order stays as it is.
    Exact: a depth-first search for a Hamiltonian cycle at each threshold, which is quick for the 2
    to 16 GPUs of a node.
    """
    places = len(bandwidth)
    if places <= 3:
        return list(range(places))
    for threshold in np.unique(bandwidth[~np.eye(places, dtype=bool)])[::-1]:
        fast = bandwidth >= threshold
        if (fast.sum(axis=1) >= 2).all() and (order := _cycle(fast, [0])):
            return order
    raise AssertionError("at the lowest threshold every order is a ring")


def _cycle(
    fast: np.ndarray[tuple[int, int], np.dtype[np.bool_]], path: list[int]
) -> list[int] | None:
    if len(path) == len(fast):
        return path if fast[path[-1], path[0]] else None
    for place in range(len(fast)):
        if fast[path[-1], place] and place not in path and (order := _cycle(fast, [*path, place])):
            return order
    return None
