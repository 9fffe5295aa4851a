"""Backup workers: of m + b gradients those of the first m workers count, the others are dropped.

With parameter servers the update is applied when m gradients of a step have come; a worker that is
late finds that out when it has pushed, pulls and goes on from the newest parameters. With an
all-reduce the collective begins when m workers are there; the others' communication threads add
zeros to it. With b = 0 it is BSP. Source: Chen et al., "Revisiting distributed synchronous SGD",
2016.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, NonNegativeInt

from dpsim.base.errors import DpsimError
from dpsim.strategy.sync.gate import Gate, QuorumGate
from dpsim.strategy.sync.sync import Sync


class BackupConfig(Sync):
    """The gradients of the last few workers of a step are dropped."""

    label: ClassVar[str] = "backup workers"

    kind: Literal["backup"] = Field(
        description="The gradients of the last few workers of a step are dropped."
    )
    backups: NonNegativeInt = Field(
        default=1,
        description="Number of backup workers: a step does not wait for its last few workers.",
    )

    @property
    def difference(self) -> str:  # type: ignore[override]
        """The difference from plain training: late gradients are dropped if there are backups."""
        return "gradients are dropped" if self.backups else ""

    def gate(self, workers: int) -> Gate:
        """Return a gate of all but the backups. Raises DpsimError if no worker is left."""
        if self.backups >= workers and self.backups:
            raise DpsimError(
                f"strategy.sync.backups: must be below the {workers} workers, but got "
                f"{self.backups}"
            )
        return QuorumGate(workers, workers - self.backups, drops=True)
