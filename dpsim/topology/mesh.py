"""The ranks of a job as a mesh: groups of consecutive ranks, and ranks at the same place in them.

A group is all ranks, those of a node, or any number that divides them. Ranks of a group share their
data; ranks at the same place of different groups hold the same: they are replicas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from dpsim.base.errors import DpsimError

GroupSize = Literal["all", "node"] | Annotated[int, Field(ge=1, le=2**20)]


@dataclass(frozen=True, slots=True)
class Mesh:
    """``ranks`` ranks numbered node by node, ``per_node`` on each; None if nodes are unequal."""

    ranks: int
    per_node: int | None

    def size(self, group: GroupSize, where: str) -> int:
        """Return the number of ranks of a ``group``.

        Raises DpsimError, naming ``where``, if groups come out uneven.
        """
        if group == "all":
            return self.ranks
        if group == "node":
            if self.per_node is None:
                raise DpsimError(
                    f"{where}: must be all or a number of ranks on nodes of unequal numbers of "
                    "GPUs, but got 'node'"
                )
            return self.per_node
        if self.ranks % group:
            raise DpsimError(f"{where}: must divide the {self.ranks} workers, but got {group}")
        return group
