"""Max-min fair sharing of capacities by progressive filling, solved for many flows at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.budget import check

_NUMBERED = 4096  # with fewer capacities, iterating over all is faster than selecting some
_NO_LOAD = 1e-200  # instead of 0, to divide by
_NO_LINK = np.array([np.inf])  # B/s

# The rates of a block, its unfinished flows, and their links (hops, flows).
_Filling = tuple[FloatArray, IntArray | slice, NDArray[np.int32]]


def max_min_rates(
    links: IntArray,
    capacities: FloatArray,
    share: FloatArray | None = None,
) -> FloatArray:
    """Return the max-min fair rate of each flow in B/s.

    No flow can have a higher rate without lowering one that is not higher.

    ``links`` is (flows, hops): capacity numbers, -1 for none. A flow of rate r takes r times its
    ``share`` (of the shape of ``links``; by default all of it) of a capacity: a share of w
    represents w equal flows. A flow without any link has an infinite rate.
    """
    # By hop and in place, because each copy of a million flows takes 50 MB.
    numbers = np.add(links.T, 1, order="C")  # 0 is no link: an infinite capacity
    demand = np.empty(numbers.shape)
    demand[:] = 1.0 if share is None else share.T
    demand[numbers == 0] = 0.0
    if share is not None:
        numbers[demand <= 0] = 0
    limited = numbers.any(axis=0)
    if np.count_nonzero(limited) < len(links):
        numbers, demand = numbers[:, limited], demand[:, limited]
    rates = np.full(len(links), np.inf)
    if numbers.size:
        with_none = np.concatenate([_NO_LINK, capacities])
        rates[limited] = progressive_filling(numbers, demand, with_none)
    return rates


def progressive_filling(links: IntArray, demand: FloatArray, capacities: FloatArray) -> FloatArray:
    """Return the max-min fair rate of each flow (B/s), by progressive filling.

    A flow of rate r takes r times ``demand`` of each of its links. ``links`` and ``demand`` are
    (hops, flows), so that each step runs along the flows. Capacity 0 is a placeholder for no link:
    it is infinite and has no demand; every flow has a link. All links that are bottlenecks of all
    their flows are filled in one turn. Source: Bertsekas and Gallager, Data Networks, 1992, section
    6.5.2.
    """
    links, left = _used_only(np.ascontiguousarray(links), capacities)
    demand = np.ascontiguousarray(demand)
    rates = np.empty(links.shape[1])
    active: IntArray | slice = slice(None)
    while True:
        check()
        # Each link offers its remaining capacity to its flows equally; a flow gets the least of
        # its links' offers, and the offer of a bottleneck is final.
        load = np.bincount(links.ravel(), demand.ravel(), len(left))
        levels = (left / np.maximum(load, _NO_LOAD))[links]
        offered = np.minimum.reduce(levels)
        if len(offered) == 1:  # a single flow, common with asynchronous workers
            rates[active] = offered
            return rates
        # A link with a flow that another link limits more is not a bottleneck yet.
        not_full = np.zeros(len(left), dtype=bool)
        not_full[links[levels > offered * (1 + 1e-12)]] = True
        # A flow is finished if one of its links is full.
        continues = np.logical_and.reduce(not_full[links])
        (unfinished,) = continues.nonzero()
        rates[active] = offered  # preliminary for the flows that continue
        if not len(unfinished):
            return rates

        (finished,) = (~continues).nonzero()
        # A flow without a limit takes nothing, because infinity times 0 is NaN.
        given = np.where(np.isinf(offered), 0, offered)[finished]
        taken = demand.take(finished, axis=1) * given
        used = np.bincount(links.take(finished, axis=1).ravel(), taken.ravel(), len(left))
        left = np.maximum(left - used, 0.0)  # rounding may take a little too much
        active = np.arange(len(rates))[active][unfinished]
        links = links.take(unfinished, axis=1)
        demand = demand.take(unfinished, axis=1)


def _used_only(links: IntArray, capacities: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return links and capacities renumbered to the used ones, if these are few of many."""
    if len(capacities) <= max(_NUMBERED, 4 * links.size):
        return links, capacities
    used, inverse = np.unique(links, return_inverse=True)
    return inverse.reshape(links.shape), capacities[used]


class BlocksOfFlows:
    """The max-min fair rates of very many flows, which are added block by block.

    Each flow takes its full rate of every link on its route, of ``capacities`` (B/s). The algorithm
    is `progressive_filling`, which would hold several tables of all flows at a time.
    """

    def __init__(self, capacities: FloatArray) -> None:
        self._left = np.insert(capacities, 0, np.inf)  # the first is no link
        self._load = np.zeros(len(self._left))  # flows that are not done yet
        self._blocks: list[NDArray[np.int32]] = []

    def add(self, tables: Sequence[IntArray]) -> NDArray[np.int32]:
        """Add a block of flows: ``tables`` of links are (flows, hops), -1 for none.

        Returns the stored table: (hops, flows), with all numbers increased by one, 0 for none.
        """
        hops = max(table.shape[1] for table in tables)
        numbers = np.full((hops, sum(map(len, tables))), -1, dtype=np.int32)
        end = 0
        for table in tables:
            begin, end = end, end + len(table)
            numbers[: table.shape[1], begin:end] = table.T
        numbers += 1
        self._blocks.append(numbers)
        self._load += self._count(numbers)
        return numbers

    def rates(self) -> list[FloatArray]:
        """Return the rate of each flow (B/s) by block; infinite without any link."""
        rates = [np.empty(links.shape[1]) for links in self._blocks]
        filling: list[_Filling] = [
            (rate, slice(None), links) for rate, links in zip(rates, self._blocks, strict=True)
        ]
        while filling:
            filling = self._turn(filling)
        return rates

    def _turn(self, filling: list[_Filling]) -> list[_Filling]:
        """Fill every link that is a bottleneck of all its flows; return the remaining flows."""
        not_full = self._offer(filling)
        self._load = np.zeros(len(self._left))
        remaining: list[_Filling] = []
        for rate, flows, links in filling:
            check()
            continues = not_full[links[0]]
            for link in links[1:]:
                continues &= not_full[link]
            # A flow without a limit takes nothing.
            taken = np.where(continues | np.isinf(rate[flows]), 0.0, rate[flows])
            self._left = self._left - self._count(links, taken)
            unfinished = np.flatnonzero(continues)
            if len(unfinished):
                kept = links.take(unfinished, axis=1)
                remaining.append((rate, np.arange(len(rate))[flows][unfinished], kept))
                self._load += self._count(kept)
        self._left = np.maximum(self._left, 0.0)  # rounding may take a little too much
        return remaining

    def _offer(self, filling: list[_Filling]) -> NDArray[np.bool_]:
        """Offer each flow the least of its links' levels; return which links are not full."""
        levels = self._left / np.maximum(self._load, 1.0)
        not_full = np.zeros(len(levels), dtype=bool)
        for rate, flows, links in filling:
            check()
            wide = links.astype(np.int64)  # numpy indexes twice as fast with these
            offers = [levels[link] for link in wide]
            offered = np.minimum.reduce(offers)
            rate[flows] = offered
            enough = offered * (1 + 1e-12)
            for offer, link in zip(offers, wide, strict=True):
                not_full[link[offer > enough]] = True
        return not_full

    def _count(self, links: NDArray[np.int32], each: FloatArray | None = None) -> FloatArray:
        """Return the number of flows, or the sum of ``each``, on every link."""
        count = np.zeros(len(self._left))
        for link in links:
            count += np.bincount(link, each, len(count))
        return count
