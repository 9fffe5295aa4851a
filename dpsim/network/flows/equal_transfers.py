"""Transfers of one call that are alike in route, latency and bytes are one flow with a weight."""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.topology import Routes


def grouped(routes: Routes, nbytes: FloatArray) -> tuple[IntArray, list[IntArray] | None]:
    """The first transfer of each set of equal ones, and the members of each set (None where all
    differ).
    """
    count, hops = routes.links.shape
    everyone = np.arange(count)
    if count < 2:
        return everyone, None
    # A random linear form of the links and the exact latency and size: equal transfers have equal
    # keys.
    form = np.random.default_rng(0).integers(-(2**62), 2**62, hops)
    key = routes.links @ form
    if routes.share is not None:
        key += routes.share.view(np.int64) @ (form | 1)
    key = (
        key * 1000003
        ^ routes.latency.view(np.int64) * 7919
        ^ np.asarray(nbytes, dtype=np.float64).view(np.int64)
    )
    _, first, group, sizes = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    if len(first) == count or not _alike(routes, nbytes, first[group]):
        return everyone, None
    return first, np.split(np.argsort(group, kind="stable"), np.cumsum(sizes)[:-1])


def _alike(routes: Routes, nbytes: FloatArray, representative: IntArray) -> bool:
    """Whether every transfer equals its representative: two different ones could share a key."""
    first = routes.take(representative)
    return bool(
        (routes.links == first.links).all()
        and (routes.latency == first.latency).all()
        and (routes.share is None or first.share is None or (routes.share == first.share).all())
        and (np.asarray(nbytes) == np.asarray(nbytes)[representative]).all()
    )
