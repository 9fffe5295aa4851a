"""Max-min fair sharing of capacities by progressive filling, solved for many flows at once."""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.budget import check

_NUMBERED = 4096  # capacities: fewer than these cost less to go through than to leave out
_NO_LOAD = 1e-200  # instead of 0, to divide by


def max_min_rates(
    links: IntArray,
    capacities: FloatArray,
    weights: FloatArray | None = None,
    share: FloatArray | None = None,
) -> FloatArray:
    """The max-min fair rate of each flow in B/s.

    No flow can have more without taking from one that has no more than it.

    ``links`` is (flows, hops): capacity numbers, -1 for none. A flow of ``weights`` w stands for w
    equal flows and gets the rate of one of them. A flow of rate r takes r times its ``share`` (of
    the shape of ``links``; all of it if left out) of a capacity. A flow without any link has an
    infinite rate.
    """
    # By hop and in place: of a million flows each copy is 50 MB.
    numbers = np.add(links.T, 1, order="C")  # 0 is no link: an infinite capacity
    demand = np.empty(numbers.shape)
    demand[:] = 1.0 if share is None else share.T
    demand[numbers == 0] = 0.0
    if share is not None:
        numbers[demand <= 0] = 0
    limited = numbers.any(axis=0)
    if not limited.all():
        numbers, demand = numbers[:, limited], demand[:, limited]
    if weights is not None:
        demand *= weights[limited]
    rates = np.full(len(links), np.inf)
    if limited.any():
        with_none = np.insert(capacities, 0, np.inf)
        rates[limited] = progressive_filling(numbers, demand, with_none)
    return rates


def progressive_filling(links: IntArray, demand: FloatArray, capacities: FloatArray) -> FloatArray:
    """The max-min fair rate of each flow (B/s), by progressive filling.

    A flow of rate r takes r times ``demand`` of each of its links. ``links`` and ``demand`` are
    (hops, flows), so that each step runs along the flows. Capacity 0 stands for no link: it is
    infinite and nothing demands it; every flow has a link. Every link that is a bottleneck to all
    its flows is filled in the same turn. Source: Bertsekas and Gallager, Data Networks, 1992,
    section 6.5.2.
    """
    links, left = _only_used(np.ascontiguousarray(links), capacities)
    demand = np.ascontiguousarray(demand)
    rates = np.empty(links.shape[1])
    active: IntArray | slice = slice(None)
    while True:
        check()
        # What each link could offer if all of its flows were alike; a flow gets the least of its
        # links' offers, and that of a bottleneck is its share for good.
        load = np.bincount(links.ravel(), demand.ravel(), len(left))
        levels = (left / np.maximum(load, _NO_LOAD))[links]
        offered = levels.min(axis=0)
        # Links with a flow that is limited elsewhere, to less than they offer: not bottlenecks yet.
        not_full = np.zeros(len(left), dtype=bool)
        not_full[links[levels > offered * (1 + 1e-12)]] = True
        # A flow is done when one of its links is full, and goes on while none is.
        goes_on = not_full[links].all(axis=0)
        others = np.flatnonzero(goes_on)
        rates[active] = offered  # for now only, of those that go on
        if not len(others):
            return rates

        through = np.flatnonzero(~goes_on)
        # What nothing limits takes nothing: infinity times no demand is not a number.
        given = np.where(np.isinf(offered), 0, offered)[through]
        taken = demand.take(through, axis=1) * given
        used = np.bincount(links.take(through, axis=1).ravel(), taken.ravel(), len(left))
        left = np.maximum(left - used, 0.0)  # rounding may take a little too much
        active = np.arange(len(rates))[active][others]
        links = links.take(others, axis=1)
        demand = demand.take(others, axis=1)


def _only_used(links: IntArray, capacities: FloatArray) -> tuple[IntArray, FloatArray]:
    """The same with only the capacities in use, where they are few of many."""
    if len(capacities) <= max(_NUMBERED, 4 * links.size):
        return links, capacities
    used, inverse = np.unique(links, return_inverse=True)
    return inverse.reshape(links.shape), capacities[used]
