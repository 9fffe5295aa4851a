"""Known routes in a compact form, without links that never limit a flow.

Max-min fair rates depend only on the set of rates that the links allow. A link whose limit follows
from others is left out: a link that carries the same flows in the same shares as another
(`LinkClasses`), and one that others keep from being full. For example, a GPU's own link cannot be
full if all traffic over it goes through a slower network card. Routes that are equal without these
links form one group.

Routes of m workers to k servers cross m k links in all. But routes of one direction are nearly
equal, so they have a *hub*: entries that apply to each of them, unless a group's own entries
replace them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import BoolArray, FloatArray, IntArray
from dpsim.network.flows.entries import Entries
from dpsim.network.flows.equal_cells import NO_CELLS, Cells, cells_of
from dpsim.network.flows.link_classes import LinkClasses
from dpsim.topology import Routes

# How many of a route's tightest and most used links are tried as the one that limits a link.
_CANDIDATES = 2
# Reduction and hubs pay off only for routes longer than this.
_LONG = 12


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """The reduced routes.

    ``group_of`` is each route's group, ``own`` the entries of each group, and ``replaces`` the
    entry of its hub that an own one replaces (-1: none; with a share of 0 it leaves that link out);
    ``hub_of`` is each group's hub (-1: none) and ``hub`` the entries of each hub. ``capacity`` is
    B/s by link. ``cells`` are none without a hub.
    """

    group_of: IntArray
    own: Entries
    replaces: IntArray
    hub_of: IntArray
    hub: Entries
    capacity: FloatArray
    cells: Cells


@lru_cache(maxsize=4)
def reduction(tables: tuple[Routes, ...], capacities: bytes) -> Reduction:
    """Return the reduction of the routes of all ``tables``, numbered consecutively.

    ``capacities`` are the bytes of the array of B/s by link, because bytes can be cached.
    """
    rates = np.frombuffer(capacities)
    entries, capacity = _classes(tables, rates)
    entries = entries.kept(~_never_full(entries, capacity)[entries.link])
    # Renumbered, because tables of few links stay in the processor's first-level cache.
    left, link = np.unique(entries.link, return_inverse=True)
    entries, capacity = Entries(entries.begin, link, entries.share), capacity[left]
    first, group_of = _distinct(entries)
    groups = entries.take(first)
    hub_of, hub = _hubs(groups)
    own, replaces = _own(groups, hub_of, hub)
    if len(hub.begin) == 1:
        return Reduction(group_of, own, replaces, hub_of, hub, capacity, NO_CELLS)
    # Renumbered, so that each cell is a span of groups and one of links.
    replaced = np.append(hub.share, 0.0)[replaces]
    cells, groups_at, links_at = cells_of(own, replaced, hub_of, hub, capacity)
    number_of = np.argsort(links_at)
    begin, place = own.places(groups_at)
    return Reduction(
        np.argsort(groups_at)[group_of],
        Entries(begin, number_of[own.link[place]], own.share[place]),
        replaces[place],
        hub_of[groups_at],
        Entries(hub.begin, number_of[hub.link], hub.share),
        capacity[links_at],
        cells,
    )


def _classes(tables: tuple[Routes, ...], rates: FloatArray) -> tuple[Entries, FloatArray]:
    """Return the entries of all routes, over classes of links that all routes cross equally."""
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
    """Return which links can be left out because other links keep them from being full.

    The load of a link is limited by another link, B, that most of its routes cross too, and for
    each other route by that route's tightest link. With demands d of the link and b of B
    (capacities C and D) its load is at most D max(d / b), over the routes on both, plus the sum of
    d (the most that the route carries) over the rest. If that is at most C, the link's limit
    follows from others'.
    """
    row, links = entries.row, len(capacity)
    with np.errstate(divide="ignore"):
        by_link = capacity[entries.link] / entries.share
        part = entries.share / capacity[entries.link]  # infinite for a cut link
    # The most that each route could carry alone, by its tightest link.
    most = np.full(len(entries.begin) - 1, np.inf)
    np.minimum.at(most, row, by_link)

    order = np.argsort(entries.link, kind="stable")
    column = np.searchsorted(entries.link[order], np.arange(links + 1))
    of_other = np.zeros(len(most))  # each route's demand on B
    flows = np.diff(column)
    # A link needs no search if the tightest links of its routes keep it from being full.
    tightest_of = np.bincount(entries.link, by_link <= most[row], links)
    at_most = np.bincount(entries.link, entries.share * most[row], links)
    dropped: BoolArray = (tightest_of == 0) & (at_most <= capacity)
    for link in _on_long_routes(entries, links, ~dropped):
        on = order[column[link] : column[link + 1]]
        routes, demand = row[on], entries.share[on]
        # The route with the largest demand most likely crosses the link that limits this one.
        largest = int(demand.argmax())
        hops = entries.at(routes[largest])
        others = entries.link[hops]
        tighter = (part[hops] >= part[on[largest]]) & (others != link) & ~dropped[others]
        for other in _candidates(others[tighter], part[hops][tighter], flows):
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
    """Return the maximum load (B/s) of a link while another of ``capacity`` limits its routes.

    By route: ``demand`` on the link, ``of_other`` the demand on the other one (0 if the route does
    not cross it), ``most`` the rate that the route carries alone.
    """
    held = of_other > 0
    limited_load = capacity * (demand[held] / of_other[held]).max(initial=0.0)
    return float(limited_load + (demand * most)[~held].sum())


def _on_long_routes(entries: Entries, links: int, among: BoolArray) -> list[int]:
    """Return the links ``among`` all that are on long routes; others are not worth a search."""
    hops = np.diff(entries.begin)
    long = np.repeat(hops > _LONG, hops)
    sought = among & (np.bincount(entries.link[long], minlength=links) > 0)
    found: list[int] = np.flatnonzero(sought).tolist()
    return found


def _candidates(links: IntArray, part: FloatArray, flows: IntArray) -> list[int]:
    """Return the tightest links, and those that most routes cross, tight ones first."""
    tightest = np.argsort(-part, kind="stable")[:_CANDIDATES]
    widest = np.lexsort((-part, -flows[links]))[:_CANDIDATES]
    return list(dict.fromkeys(links[np.append(tightest, widest)].tolist()))


def _distinct(entries: Entries) -> tuple[IntArray, IntArray]:
    """Return the first of each set of equal routes, and the number of the set of each route."""
    # Random linear forms modulo 2^64 distinguish routes, except with a probability of 2^-60.
    random = np.random.default_rng(0)
    of_link = random.integers(2**63, size=entries.link.max(initial=0) + 1, dtype=np.uint64)
    of_share = entries.share.view(np.uint64) % np.uint64(2**61 - 1)
    sums = np.cumsum(of_link[entries.link] * of_share, dtype=np.uint64)
    # The sum of each route's entries, as a difference of cumulative sums, is exact modulo 2^64.
    until = np.append(np.zeros(1, np.uint64), sums)[entries.begin]
    _, first, group_of = np.unique(np.diff(until), return_index=True, return_inverse=True)
    return first, group_of


def _hubs(groups: Entries) -> tuple[IntArray, Entries]:
    """Return the hub of each group, and the hubs: entries that most of their groups share."""
    hub_of = np.full(len(groups.begin) - 1, -1)
    row = groups.row
    waiting = np.diff(groups.begin) > _LONG
    links, shares, sizes = [_none(np.int64)], [_none(np.float64)], [0]
    of_seed = np.zeros(groups.link.max(initial=0) + 1)
    while waiting.any():
        # The first group without a hub collects all groups that share more than half of their
        # links with it; the entries common to most of them form their hub. It is one of its own
        # members, so the loop ends.
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
    """Return the links, and their shares, that more than half of ``members`` groups have."""
    link, share = groups.link[among], groups.share[among]
    order = np.lexsort((share, link))
    link, share = link[order], share[order]
    # Sorted, so equal entries of link and share are adjacent, one for each group.
    is_new = (np.diff(link, prepend=-1) != 0) | (np.diff(share, prepend=-1.0) != 0)
    first = np.flatnonzero(is_new)
    often = first[2 * np.diff(first, append=len(link)) > members]
    return link[often], share[often]


def _own(groups: Entries, hub_of: IntArray, hub: Entries) -> tuple[Entries, IntArray]:
    """Return each group's entries that differ from its hub, and those that they replace."""
    wide = groups.link.max(initial=0) + 1
    found = [(_none(np.int64), _none(np.int64), _none(np.float64), _none(np.int64))]
    # -1 stands for the groups without a hub, whose entries are all their own.
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
            # A link of the hub that the group does not cross is replaced by a share of 0.
            left_out = np.setdiff1d(hub.link[here], link, assume_unique=True)
            own = np.append(link[differs], left_out)
            taken = np.append(share[differs], np.zeros(len(left_out)))
            found.append((np.full(len(own), group), own, taken, place[own]))
    row, link, share, replaces = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(row, kind="stable")
    return Entries.of(row[order], link[order], share[order], len(hub_of)), replaces[order]


def _none(kind: Any) -> NDArray[Any]:
    return np.empty(0, dtype=kind)
