"""Transfers of one call that are alike in route, latency and bytes are one flow with a weight."""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.topology import Routes


def grouped(
    table: Routes, nbytes: FloatArray, rows: IntArray
) -> tuple[IntArray, list[IntArray] | None]:
    """The first transfer of each set of equal ones, and the members of each set.

    A transfer is one of ``nbytes`` by one of ``rows`` of ``table``. The members are None where all
    transfers differ.
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
    if len(first) == count or not _alike(routes, size, representative):
        return everyone, None

    members = np.argsort(group, kind="stable")
    ends = np.cumsum(sizes)[:-1]
    return first, np.split(members, ends)


def _keys(routes: Routes, size: FloatArray) -> IntArray:
    """A number for each transfer; equal transfers have equal ones.

    A random linear form of the links and shares, with the bits of latency and size: one pass over
    the table, where comparing whole rows would sort them.
    """
    hops = routes.links.shape[1]
    form = np.random.default_rng(0).integers(-(2**62), 2**62, hops)
    key = routes.links @ form
    if routes.share is not None:
        # By odd numbers, which lose no bit of a share modulo 2^64.
        key += routes.share.view(np.int64) @ (form | 1)
    latency_bits = routes.latency.view(np.int64)
    return np.asarray(key * 1000003 ^ latency_bits * 7919 ^ size.view(np.int64))


def _alike(routes: Routes, size: FloatArray, representative: IntArray) -> bool:
    """Whether every transfer equals its representative: two different ones could share a key."""
    first = routes.take(representative)
    if (routes.links != first.links).any() or (routes.latency != first.latency).any():
        return False
    if routes.share is not None and first.share is not None and (routes.share != first.share).any():
        return False
    return bool((size == size[representative]).all())
