"""2D-torus all-reduce.

Ranks in a grid; reduce-scatter along rows, all-reduce along columns, all-gather along rows.

If ranks fill more than one node with several ranks each, a row is a node. Otherwise rows run along
the last dimension of the fabric's grid, and columns over its others; without a grid, the ranks form
the one nearest to a square, with rows no shorter than columns. Exact, for rows of g and columns of
N ranks: the hierarchical algorithm's function with those. Source: Mikami et al., "Massively
distributed SGD: ImageNet/ResNet-50 training in a flash", 2018 (arXiv:1811.05233).
"""

from dpsim.base.arrays import near_square
from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.all_reduces.hierarchical import in_groups, in_groups_time
from dpsim.collectives.schedule import Chunking, Schedule


def compile_torus(layout: RankLayout) -> Schedule:
    """Compile the schedule with rows as groups."""
    phases = in_groups(layout.ranks, row(layout))
    return Schedule("all-reduce", "torus-2d", layout.ranks, layout.ranks, phases)


def row(layout: RankLayout) -> int:
    """Return the ranks in a row: of a node, the fabric's grid, or the grid nearest to a square."""
    ranks, node = layout.ranks, layout.per_node or 1
    if 1 < node < ranks and ranks % node == 0:
        return node
    if layout.grid is not None:
        # A dimension of one rank does not count.
        return next((side for side in reversed(layout.grid) if side > 1), 1)
    # For a prime number of ranks there is one row, so the algorithm is a ring.
    return near_square(ranks)[1]


def exact_time(layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: (g-1)(2(o + alpha + B beta) + B gamma) + (N-1)(2(o + alpha + c beta) + c gamma)."""
    return in_groups_time(layout.ranks, row(layout), chunking, costs)


ALGORITHM = Algorithm(
    "all-reduce",
    "torus-2d",
    "ranks in a grid: reduce-scatter along rows, all-reduce along columns, all-gather along rows",
    "Mikami et al., 2018 (arXiv:1811.05233)",
    compile_torus,
    exact_time,
    depends_on_nodes=True,
)
