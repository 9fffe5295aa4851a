"""Find equal values, and equal transfers of one call."""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.topology import Routes


def by_value(values: FloatArray) -> list[tuple[float, IntArray]]:
    """Return each distinct value, in ascending order, with its indices."""
    if len(values) == 1:  # the most common case, many times faster
        return [(float(values[0]), np.zeros(1, dtype=np.int64))]
    return [(float(value), np.flatnonzero(values == value)) for value in np.unique(values)]


def grouped(
    table: Routes, nbytes: FloatArray, rows: IntArray
) -> tuple[IntArray, list[IntArray] | None]:
    """Return the first transfer of each set of equal ones, and the members of each set.

    Each transfer sends one of ``nbytes`` over one of ``rows`` of ``table``. The members are None if
    all transfers differ.
    """
    count = len(rows)
    everyone = np.arange(count)
    if count < 2:
        return everyone, None

    routes = table.take(rows)
    size = np.asarray(nbytes, dtype=np.float64)
    _, first, group, sizes = np.unique(
        _keys(routes, size), return_index=True, return_inverse=True, return_counts=True
    )
    representative = first[group]
    if len(first) == count or not _all_equal(routes, size, representative):
        return everyone, None

    members = np.argsort(group, kind="stable")
    ends = np.cumsum(sizes)[:-1]
    return first, np.split(members, ends)


def _keys(routes: Routes, size: FloatArray) -> IntArray:
    """Return a hash of each transfer.

    It combines a random linear form of links and shares with the bits of latency and size. This
    takes one pass over the table; comparing whole rows would sort them.
    """
    hops = routes.links.shape[1]
    form = np.random.default_rng(0).integers(-(2**62), 2**62, hops)
    key = routes.links @ form
    if routes.share is not None:
        # With odd factors, which lose no bit of a share modulo 2^64.
        key += routes.share.view(np.int64) @ (form | 1)
    latency_bits = routes.latency.view(np.int64)
    return np.asarray(key * 1000003 ^ latency_bits * 7919 ^ size.view(np.int64))


def _all_equal(routes: Routes, size: FloatArray, representative: IntArray) -> bool:
    """Return whether every transfer equals its representative: unequal ones may share a hash."""
    first = routes.take(representative)
    if (routes.links != first.links).any() or (routes.latency != first.latency).any():
        return False
    if routes.share is not None and first.share is not None and (routes.share != first.share).any():
        return False
    return bool((size == size[representative]).all())
