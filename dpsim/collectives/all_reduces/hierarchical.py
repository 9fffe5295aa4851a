"""Hierarchical all-reduce.

Reduce-scatter inside nodes, all-reduce between them on rails, all-gather inside.

A rail joins the GPUs with the same local rank of all nodes; each rail all-reduces its own part of
the vector round a ring, all rails at once, so that every network card is used. For g ranks on each
of N nodes: exact, with B the bytes of the largest of g parts and c those of the largest chunk:
(g-1) (2 (o + alpha + B beta) + B gamma) + (N-1) (2 (o + alpha + c beta) + c gamma). Source: Jia et
al., "Highly scalable deep learning training system with mixed-precision", 2018; rails as in Cho et
al., "BlueConnect", MLSys 2019.
"""

import numpy as np

from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.rings import Rings, all_reduce_time
from dpsim.collectives.schedule import Chunking, Phase, Schedule, ranks_array


def compile_hierarchical(layout: RankLayout) -> Schedule:
    """Compile the schedule with nodes as groups."""
    group = layout.groups_of("hierarchical")
    phases = in_groups(layout.ranks, group)
    return Schedule("all-reduce", "hierarchical", layout.ranks, layout.ranks, phases)


def in_groups(ranks: int, group: int) -> tuple[Phase, ...]:
    """Return reduce-scatter in groups, all-reduce across them, and all-gather in groups.

    A group is ``group`` consecutive ranks.
    """
    rank, groups = ranks_array(ranks), ranks // group
    number, place = np.divmod(rank, group)
    # Ranks with the same local rank hold the same part after the first phase, and form a rail.
    inside = Rings(rank, place, number * group + (place + 1) % group, group, stride=groups)
    between = Rings(rank, number, (rank + group) % ranks, groups, base=place * groups)
    return (
        inside.reduce_scatter()
        + between.reduce_scatter()
        + between.all_gather()
        + inside.all_gather()
    )


def in_groups_time(ranks: int, group: int, chunking: Chunking, costs: Costs) -> float:
    """Return the seconds that `in_groups` takes.

    The first rank of each group has the largest part, and all others wait for it.
    """
    groups = ranks // group
    # A part is a block of as many chunks as there are groups; the first one is the longest.
    part = float(chunking.nbytes(np.array(0), np.array(groups)))
    return all_reduce_time(group, part, costs) + all_reduce_time(groups, chunking.largest, costs)


def exact_time(layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: (g-1)(2(o + alpha + B beta) + B gamma) + (N-1)(2(o + alpha + c beta) + c gamma)."""
    return in_groups_time(layout.ranks, layout.groups_of("hierarchical"), chunking, costs)


ALGORITHM = Algorithm(
    "all-reduce",
    "hierarchical",
    "reduce-scatter inside nodes, all-reduce between them on rails, all-gather inside",
    "Jia et al., 2018 (arXiv:1807.11205); Cho et al., MLSys 2019 (rails)",
    compile_hierarchical,
    exact_time,
    depends_on_nodes=True,
)
