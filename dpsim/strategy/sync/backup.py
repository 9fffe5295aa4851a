"""Backup workers: of m + b workers' gradients the first m count, and the others are dropped.

With parameter servers the update is applied when m gradients of a step have arrived; a late worker
learns that its gradient was dropped when it has pushed, and continues from the newest parameters.
With an all-reduce the collective starts when m workers are ready; the others' communication threads
contribute zeros. With b = 0 it is BSP. Source: Chen et al., "Revisiting distributed synchronous
SGD", 2016.
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
