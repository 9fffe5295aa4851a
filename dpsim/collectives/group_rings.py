"""Rings in groups: a collective of each group of ranks, all groups at once.

Ranks ``g n`` to ``g n + g - 1`` are group n. Inside groups a ring joins neighbours; across them one
ring joins the ranks of equal place, which are replicas of one another. Each ring has a vector of
its own. Exact on a uniform switch: what `ring` takes with as many ranks as one ring has.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Literal

import numpy as np

from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.rings import Rings
from dpsim.collectives.schedule import Chunking, Phase, Schedule, ranks_array

RingOperation = Literal["all-reduce", "reduce-scatter", "all-gather"]


@cache
def rings_in_groups(operation: RingOperation, size: int, *, across: bool = False) -> Algorithm:
    """``operation`` in every group of ``size`` ranks, or ``across`` groups between replicas."""
    where = "between replicas" if across else "inside groups"
    return Algorithm(
        operation,
        f"rings of {size} {where}" if not across else f"rings across groups of {size}",
        f"a ring {where} of {size} ranks, all at once",
        "Patarasuk and Yuan, JPDC 69, 2009",
        partial(_compile, operation, size, across),
        partial(_exact_time, operation, size, across),
    )


def _compile(operation: RingOperation, size: int, across: bool, layout: RankLayout) -> Schedule:
    ranks = layout.ranks
    rank = ranks_array(ranks)
    number, place = np.divmod(rank, size)
    if across:
        length = ranks // size
        rings = Rings(rank, number, (rank + size) % ranks, length)
    else:
        length = size
        rings = Rings(rank, place, number * size + (place + 1) % size, length)
    return Schedule(operation, "ring", ranks, length, _phases(rings, operation))


def _phases(rings: Rings, operation: RingOperation) -> tuple[Phase, ...]:
    if operation == "reduce-scatter":
        return rings.reduce_scatter()
    if operation == "all-gather":
        return rings.all_gather()
    return rings.reduce_scatter() + rings.all_gather()


def _exact_time(
    operation: RingOperation,
    size: int,
    across: bool,
    layout: RankLayout,
    split: Chunking,
    costs: Costs,
) -> float:
    """Seconds: (l-1) (o + alpha + c beta) for each way round a ring of l, c gamma for each sum."""
    hops = (layout.ranks // size if across else size) - 1
    message, adding = costs.message(split.largest), split.largest * costs.gamma
    return (
        hops
        * {
            "all-gather": message,
            "reduce-scatter": message + adding,
            "all-reduce": 2 * message + adding,
        }[operation]
    )
