"""Groups of workers that are disturbed together: single workers, nodes, or racks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from dpsim.base.config import Config

Indices = NDArray[np.intp]


class GroupedDisturbance(Config):
    """A disturbance that affects groups of workers."""

    per: Literal["worker", "node", "rack"] = Field(
        default="worker", description="The unit that is slowed as a whole."
    )
    nodes_per_rack: PositiveInt = Field(
        default=4, description="Nodes of a rack; used if racks are slowed as a whole."
    )

    def groups(self, workers: int, per_node: int | Sequence[int]) -> Indices:
        """Return the group of each worker, counted from 0.

        ``per_node``: workers of each node, or of node 0, 1, ...
        """
        if self.per == "worker":
            return np.arange(workers)
        nodes = node_of(workers, per_node)
        return nodes if self.per == "node" else nodes // self.nodes_per_rack


def node_of(workers: int, per_node: int | Sequence[int]) -> Indices:
    """Return the node of each worker: ranks fill one node after the other."""
    if isinstance(per_node, int):
        return np.arange(workers) // per_node
    return np.repeat(np.arange(len(per_node)), per_node)[:workers]
