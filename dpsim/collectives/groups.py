"""A collective in each group of ranks, all groups at once, by any algorithm.

Ranks ``g n`` to ``g n + g - 1`` are group n. A collective runs inside groups, or across them among
the ranks with the same index, which are replicas. Each collective has its own vector. The schedule
is the algorithm's for the participating ranks, once for each group, with its ranks mapped. It is
exact on a uniform switch if the algorithm is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from dpsim.base.arrays import IntArray
from dpsim.collectives.algorithm import Algorithm, RankLayout
from dpsim.collectives.schedule import Cyclic, Phase, Schedule, Window, ranks_array


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of ``size`` consecutive ranks, or with ``across`` the ranks of equal index."""

    size: int
    across: bool = False

    def among(self, layout: RankLayout) -> RankLayout:
        """Return the layout of the ranks of one collective."""
        size, per_node = self.size, layout.per_node
        ranks = layout.ranks // size if self.across else size
        if per_node is None:
            return RankLayout(ranks, None)
        if layout.grid is not None:
            return RankLayout(ranks, 1, self._grid(layout.grid))
        if self.across:
            # Ranks with the same index share a node if it holds several whole groups.
            here = per_node // size if per_node % size == 0 else 1
            return RankLayout(ranks, max(here, 1))
        whole = size % per_node == 0 or per_node % size == 0
        return RankLayout(ranks, min(size, per_node) if whole else None)

    def _grid(self, sides: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the grid of one collective's ranks; None if groups end inside a row."""
        left, inside, outside = self.size, [], []
        for side in reversed(sides):
            if left % side and side % left:
                return None
            inside.append(min(left, side))
            outside.append(side // inside[-1])
            left //= inside[-1]
        return tuple(reversed(outside if self.across else inside))

    def members(self, ranks: int) -> IntArray:
        """Return the ranks of each collective, a row for each, evenly spaced."""
        rows = ranks_array(ranks).reshape(-1, self.size)
        return np.asarray(rows.T if self.across else rows)


@cache
def in_groups(algorithm: Algorithm, groups: Groups) -> Algorithm:
    """Return ``algorithm`` running in every one of ``groups``."""
    where = "across groups" if groups.across else "in groups"

    def compile_each(layout: RankLayout) -> Schedule:
        among = groups.among(layout)
        one = algorithm.schedule(among.ranks, among.per_node, among.grid)
        members = groups.members(layout.ranks)
        # Ranks of a group are consecutive; ranks with the same index are a group apart.
        stride = groups.size if groups.across else 1
        phases = tuple(_in_all_groups(phase, stride, members[:, 0]) for phase in one.phases)
        return replace(one, ranks=layout.ranks, phases=phases, members=members, of_each=one)

    # The collectives are independent, so each takes the time of one.
    return Algorithm(
        algorithm.operation,
        f"{algorithm.name} {where} of {groups.size}",
        f"{algorithm.description}, {where} of {groups.size} ranks, all at once",
        algorithm.source,
        compile_each,
        lambda layout, split, costs: algorithm.exact_time(groups.among(layout), split, costs),
        lambda layout, split, costs: algorithm.exact_for(groups.among(layout), split, costs),
    )


def _in_all_groups(phase: Phase, stride: int, first: IntArray) -> Phase:
    """Return ``phase`` of ranks 0, 1, ... as a phase of the ranks of all groups."""
    transfers, groups = len(phase.source), len(first)
    start = np.repeat(first, transfers)

    def each(values: IntArray | int) -> IntArray:
        return np.tile(np.broadcast_to(values, transfers), groups)

    def of_all(cycle: Cyclic) -> Cyclic:
        return replace(cycle, index=np.tile(cycle.index, groups), base=each(cycle.base))

    # Rank i of a group is ``first + stride i``, so a cycle of ranks stays a cycle: its base and its
    # stride are mapped. Chunks are the group's own and do not change.
    to = of_all(phase.destination)
    window = phase.window
    return replace(
        phase,
        source=start + stride * each(phase.source),
        destination=replace(to, base=start + stride * to.base, stride=stride * to.stride),
        chunk=of_all(phase.chunk),
        reduce=np.tile(np.broadcast_to(phase.reduce, transfers), groups),
        count=each(phase.count),
        window=window and Window(np.tile(window.first, groups), window.uses, window.every),
    )
