"""Collective operations as schedules: one file per algorithm, with its formula and its proof.

It uses only `base`: no network, no GPU, no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand
from dpsim.collectives.algorithm import (
    ALL_REDUCES,
    IN_NETWORK,
    NOT_SCHEDULES,
    Algorithm,
    Costs,
    RankLayout,
    algorithm,
    algorithm_names,
    all_reduce,
    always_exact,
)
from dpsim.collectives.operations import OPERATIONS
from dpsim.collectives.schedule import (
    Chunking,
    Cyclic,
    Phase,
    Round,
    Schedule,
    Window,
    fixed,
    ranks_array,
)
from dpsim.collectives.traffic import Traffic, traffic

if TYPE_CHECKING:
    from dpsim.collectives.arithmetic import contributions, execute
    from dpsim.collectives.binary_trees import tree_edges
    from dpsim.collectives.every import ALGORITHMS
    from dpsim.collectives.gossip import GOSSIP_GRAPHS, gossip_turns, mixing_matrix, most_neighbours
    from dpsim.collectives.groups import Groups, in_groups
    from dpsim.collectives.rings import Rings
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "ALGORITHMS",
    "ALL_REDUCES",
    "GOSSIP_GRAPHS",
    "IN_NETWORK",
    "NOT_SCHEDULES",
    "OPERATIONS",
    "Algorithm",
    "Chunking",
    "Costs",
    "Cyclic",
    "Groups",
    "Phase",
    "RankLayout",
    "Rings",
    "Round",
    "Schedule",
    "Traffic",
    "Window",
    "algorithm",
    "algorithm_names",
    "all_reduce",
    "always_exact",
    "contributions",
    "execute",
    "fixed",
    "gossip_turns",
    "in_groups",
    "mixing_matrix",
    "most_neighbours",
    "ranks_array",
    "traffic",
    "tree_edges",
]
