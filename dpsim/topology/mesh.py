"""The ranks of a job as a mesh: groups of consecutive ranks, and replicas across groups.

A group is all ranks, the ranks of a node, or any number that divides them. The ranks of a group
divide their data; ranks with the same index in different groups hold the same and are replicas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from dpsim.base.errors import DpsimError

GroupSize = Literal["all", "node"] | Annotated[int, Field(ge=1, le=2**20)]


@dataclass(frozen=True, slots=True)
class Mesh:
    """``ranks`` ranks, numbered node by node, ``per_node`` on each (None if nodes differ)."""

    ranks: int
    per_node: int | None

    def size(self, group: GroupSize, where: str) -> int:
        """Return the number of ranks of a ``group``.

        Raises DpsimError, naming ``where``, if the groups would be unequal.
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
