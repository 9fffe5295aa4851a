"""Routes that are known beforehand, told briefly: without links that never hold anybody up.

Max-min fair rates are a property of the set of rates that the links allow. A link whose limit
follows from another's is left out: one that carries the same flows in the same shares
(`LinkClasses`), and one that others keep from being full: a GPU's own link cannot be where all that
crosses it goes through a slower network card. Routes that are the same without them are one group.

What m workers send to k servers crosses m k links in all. But routes of one direction are alike in
nearly all of them, so they have a *hub*: entries that hold for each of them, where a group's own
entries do not say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import BoolArray, FloatArray, IntArray
from dpsim.network.flows.link_classes import LinkClasses
from dpsim.topology import Routes

# Links that are tried as what holds another: so many of the tightest and of the widest of a route.
_CANDIDATES = 2
# Where routes are longer than this, fewer links and hubs pay.
_LONG = 12


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Links by route, or by hub: those of number i stand from ``begin[i]`` to ``begin[i + 1]``.

    ``share`` is what a flow takes of each link, per B/s of its rate.
    """

    begin: IntArray
    link: IntArray
    share: FloatArray

    @property
    def row(self) -> IntArray:
        """The number of the route of each entry."""
        return np.repeat(np.arange(len(self.begin) - 1), np.diff(self.begin))

    @classmethod
    def of(cls, row: IntArray, link: IntArray, share: FloatArray, rows: int) -> Entries:
        """Entries given by the number of their route, in ascending order."""
        return cls(np.searchsorted(row, np.arange(rows + 1)), link, share)

    def at(self, number: int) -> slice:
        """Where those of route ``number`` stand."""
        return slice(self.begin[number], self.begin[number + 1])

    def kept(self, keep: BoolArray) -> Entries:
        """Some of the entries."""
        row = self.row[keep]
        return Entries.of(row, self.link[keep], self.share[keep], len(self.begin) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """What is left of routes.

    ``group_of`` routes, ``own`` entries of each group, and which entry of its hub an own one
    ``replaces`` (-1: none; with a share of 0 it leaves that link out); ``hub_of`` groups (-1: none)
    and the entries of each ``hub``. ``capacity`` is B/s by link.
    """

    group_of: IntArray
    own: Entries
    replaces: IntArray
    hub_of: IntArray
    hub: Entries
    capacity: FloatArray


@lru_cache(maxsize=4)
def reduction(tables: tuple[Routes, ...], capacities: bytes) -> Reduction:
    """The reduction of the routes of all ``tables``, numbered through.

    ``capacities`` are the bytes of B/s by link: as bytes, so that the answer can be kept.
    """
    rates = np.frombuffer(capacities)
    entries, capacity = _classes(tables, rates)
    entries = entries.kept(~_never_full(entries, capacity)[entries.link])
    # Numbered anew: tables of so few links stay in the processor's first cache.
    left, link = np.unique(entries.link, return_inverse=True)
    entries, capacity = Entries(entries.begin, link, entries.share), capacity[left]
    first, group_of = _alike(entries)
    groups = _rows(entries, first)
    hub_of, hub = _hubs(groups)
    own, replaces = _own(groups, hub_of, hub)
    return Reduction(group_of, own, replaces, hub_of, hub, capacity)


def _classes(tables: tuple[Routes, ...], rates: FloatArray) -> tuple[Entries, FloatArray]:
    """The entries of all routes, over classes of links that all of them cross alike."""
    hops = max(table.links.shape[1] for table in tables)
    rows = sum(len(table.links) for table in tables)
    links = np.full((rows, hops), -1, dtype=np.int64)
    share = np.zeros((rows, hops))
    begin = 0
    for table in tables:
        end, width = begin + len(table.links), table.links.shape[1]
        taken = np.ones(table.links.shape) if table.share is None else table.share
        links[begin:end, :width] = np.where(taken > 0, table.links, -1)
        share[begin:end, :width] = taken
        begin = end
    classes = LinkClasses(rates)
    crossed, taken = classes.crossed(links, share, lambda _: None)
    row, hop = np.nonzero(crossed.T)
    entries = Entries.of(row, crossed[hop, row], taken[hop, row], rows)
    return entries, classes.capacity


def _never_full(entries: Entries, capacity: FloatArray) -> BoolArray:
    """Which links can be left out, since others never let them be full.

    What crosses a link is held by another one, B, that most of it crosses too, and route by route
    by the tightest link of each. With demands d of the link and b of B (capacities C and D) its
    load is at most D max(d / b), over the routes on both, plus the sum of d (most that the route
    carries) over the rest. If that is at most C, the link's limit follows from those of others.
    """
    row, links = entries.row, len(capacity)
    with np.errstate(divide="ignore"):
        alone = capacity[entries.link] / entries.share
        part = entries.share / capacity[entries.link]  # of a link that is cut: all
    # What each route could carry if it were alone: the least of what its links would let it.
    most = np.full(len(entries.begin) - 1, np.inf)
    np.minimum.at(most, row, alone)

    order = np.argsort(entries.link, kind="stable")
    column = np.searchsorted(entries.link[order], np.arange(links + 1))
    of_other = np.zeros(len(most))  # what each route takes of B
    dropped = np.zeros(links, dtype=bool)
    flows = np.diff(column)
    for link in _on_long_routes(entries, links):
        on = order[column[link] : column[link + 1]]
        routes, demand = row[on], entries.share[on]
        # The route that takes most of it is most likely to be held by the link that holds it.
        chief = int(demand.argmax())
        way = entries.at(routes[chief])
        others = entries.link[way]
        tighter = (part[way] >= part[on[chief]]) & (others != link) & ~dropped[others]
        for other in _candidates(others[tighter], part[way][tighter], flows):
            crossing = order[column[other] : column[other + 1]]
            of_other[row[crossing]] = entries.share[crossing]
            load = _most_load(demand, of_other[routes], most[routes], capacity[other])
            of_other[row[crossing]] = 0
            if load <= capacity[link]:
                dropped[link] = True
                break
    return dropped


def _most_load(
    demand: FloatArray, of_other: FloatArray, most: FloatArray, capacity: float
) -> float:
    """B/s that a link carries at the most while another one of ``capacity`` holds its routes.

    By route: ``demand`` of the link, ``of_other`` that of the other one (0 where the route does not
    cross it), ``most`` what the route carries alone.
    """
    held = of_other > 0
    together = capacity * (demand[held] / of_other[held]).max(initial=0.0)
    return float(together + (demand * most)[~held].sum())


def _on_long_routes(entries: Entries, links: int) -> list[int]:
    """The links of long routes: leaving links out of short ones does not pay for the search."""
    hops = np.diff(entries.begin)
    long = np.repeat(hops > _LONG, hops)
    sought = np.bincount(entries.link[long], minlength=links) > 0
    found: list[int] = np.flatnonzero(sought).tolist()
    return found


def _candidates(links: IntArray, part: FloatArray, flows: IntArray) -> list[int]:
    """Those that are tightest, and those that most routes cross, tight ones first."""
    tightest = np.argsort(-part, kind="stable")[:_CANDIDATES]
    widest = np.lexsort((-part, -flows[links]))[:_CANDIDATES]
    return list(dict.fromkeys(links[np.append(tightest, widest)].tolist()))


def _alike(entries: Entries) -> tuple[IntArray, IntArray]:
    """The first of each set of equal routes, and the number of the set of each route."""
    # Random linear forms modulo 2^64 tell routes apart, but for a chance of about 2^-60.
    random = np.random.default_rng(0)
    of_link = random.integers(2**63, size=entries.link.max(initial=0) + 1, dtype=np.uint64)
    of_share = entries.share.view(np.uint64) % np.uint64(2**61 - 1)
    sums = np.cumsum(of_link[entries.link] * of_share, dtype=np.uint64)
    # The sum of each route's entries, as a difference of running sums: modulo 2^64 it is exact.
    until = np.append(np.zeros(1, np.uint64), sums)[entries.begin]
    _, first, group_of = np.unique(np.diff(until), return_index=True, return_inverse=True)
    return first, group_of


def _rows(entries: Entries, rows: IntArray) -> Entries:
    """The entries of some routes, numbered anew in the order of ``rows``."""
    count = (entries.begin[1:] - entries.begin[:-1])[rows]
    begin = np.append(0, np.cumsum(count))
    # An entry's number in its row, counted from where the row began before.
    at = np.arange(begin[-1]) + np.repeat(entries.begin[rows] - begin[:-1], count)
    return Entries(begin, entries.link[at], entries.share[at])


def _hubs(groups: Entries) -> tuple[IntArray, Entries]:
    """The hub of each group, and the hubs: what most of their groups cross in the same share."""
    hub_of = np.full(len(groups.begin) - 1, -1)
    row = groups.row
    waiting = np.diff(groups.begin) > _LONG
    links, shares, sizes = [_none(np.int64)], [_none(np.float64)], [0]
    of_seed = np.zeros(groups.link.max(initial=0) + 1)
    while waiting.any():
        # The first that waits gathers all that are in more than half of their links as it is: what
        # most of those have in common is their hub. It is one of them itself, so that this ends.
        seed = int(np.flatnonzero(waiting)[0])
        here = groups.at(seed)
        of_seed[:] = 0
        of_seed[groups.link[here]] = groups.share[here]
        same = np.bincount(row[of_seed[groups.link] == groups.share], minlength=len(hub_of))
        members = waiting & (2 * same > np.diff(groups.begin))
        hub_of[members] = len(sizes) - 1
        waiting &= ~members
        link, share = _common(groups, members[row], int(members.sum()))
        links.append(link)
        shares.append(share)
        sizes.append(len(link))
    return hub_of, Entries(np.cumsum(sizes), np.concatenate(links), np.concatenate(shares))


def _common(groups: Entries, among: BoolArray, members: int) -> tuple[IntArray, FloatArray]:
    """The links, and the share, that more than half of ``members`` groups have."""
    link, share = groups.link[among], groups.share[among]
    order = np.lexsort((share, link))
    link, share = link[order], share[order]
    # Sorted: entries of one link and share follow one another, as often as there are groups.
    is_new = (np.diff(link, prepend=-1) != 0) | (np.diff(share, prepend=-1.0) != 0)
    first = np.flatnonzero(is_new)
    often = first[2 * np.diff(first, append=len(link)) > members]
    return link[often], share[often]


def _own(groups: Entries, hub_of: IntArray, hub: Entries) -> tuple[Entries, IntArray]:
    """Where each group differs from its hub: its entries, and those of the hub they replace."""
    wide = groups.link.max(initial=0) + 1
    found = [(_none(np.int64), _none(np.int64), _none(np.float64), _none(np.int64))]
    # -1 are the groups without a hub, whose entries are all their own.
    for number in range(-1, len(hub.begin) - 1):
        place = np.full(wide, -1)  # of each link in the hub
        of_hub = np.zeros(wide)
        here = slice(0, 0) if number < 0 else hub.at(number)
        place[hub.link[here]] = np.arange(here.start, here.stop)
        of_hub[hub.link[here]] = hub.share[here]
        for group in np.flatnonzero(hub_of == number).tolist():
            crossed = groups.at(group)
            link, share = groups.link[crossed], groups.share[crossed]
            differs = (place[link] < 0) | (of_hub[link] != share)
            # A link of the hub that the group does not cross is replaced by none of it.
            left_out = np.setdiff1d(hub.link[here], link, assume_unique=True)
            own = np.append(link[differs], left_out)
            taken = np.append(share[differs], np.zeros(len(left_out)))
            found.append((np.full(len(own), group), own, taken, place[own]))
    row, link, share, replaces = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(row, kind="stable")
    return Entries.of(row[order], link[order], share[order], len(hub_of)), replaces[order]


def _none(kind: Any) -> NDArray[Any]:
    return np.empty(0, dtype=kind)
