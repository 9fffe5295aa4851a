"""Max-min fair sharing of capacities by progressive filling, solved for many flows at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsim.topology.network import FloatArray, IntArray


def max_min_rates(links: IntArray, capacities: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """The max-min fair rate of each flow in B/s: no flow can have more without taking from one that has no more than it.

    ``links`` is (flows, hops): capacity numbers, -1 for none. A flow of ``weights`` w stands for w equal flows and gets the
    rate of one of them. A flow without any link has an infinite rate. Progressive filling (Bertsekas and Gallager, Data
    Networks, 1992, section 6.5.2): every link that is a bottleneck to all its flows is filled in the same turn.
    """
    flows, hops = links.shape
    rates = np.full(flows, np.inf)
    if flows == 0 or hops == 0:
        return rates
    used, inverse = np.unique(links, return_inverse=True)
    links = inverse.reshape(links.shape)
    left = np.append(capacities, np.inf)[used]  # link -1, no link, is the last entry: without limit
    weight = np.ones(flows) if weights is None else weights
    active = np.arange(flows)
    while len(active):
        hop = links[active]
        load = np.bincount(hop.ravel(), np.repeat(weight[active], hops), len(left))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(load > 0, left / load, np.inf)
        offered = share[hop].min(axis=1)
        filled = _filled(hop, offered, share)
        done = filled[hop].any(axis=1) | np.isinf(offered)
        rates[active[done]] = offered[done]
        taken = np.bincount(
            hop[done].ravel(), np.repeat(np.where(np.isinf(offered), 0, offered * weight[active])[done], hops), len(left)
        )
        left = np.maximum(left - taken, 0.0)
        active = active[~done]
    return rates


def _filled(hop: IntArray, offered: FloatArray, share: FloatArray) -> NDArray[np.bool_]:
    """The links that no flow on them can be limited elsewhere below: the least offer on the link is the link's own share."""
    least = np.full(len(share), np.inf)
    np.minimum.at(least, hop.ravel(), np.repeat(offered, hop.shape[1]))
    return np.isfinite(share) & (least >= share * (1 - 1e-12))
