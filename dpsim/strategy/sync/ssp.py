"""SSP(s): no worker begins iteration t before the slowest has finished iteration t - s - 1.

Stale-synchronous parallel: clocks are at most s apart, and a worker reads at least all updates up
to clock t - s - 1, and all of its own. With parameter servers workers push and pull independently.
With an all-reduce a worker begins t when the all-reduce of iteration t - s - 1 has finished, which
is the same bound. SSP(0) is BSP, and runs as such. Source: Ho et al., "More effective distributed
ML via a stale synchronous parallel parameter server", NeurIPS 2013; with all-reduce: Li et al.,
"Pipe-SGD", NeurIPS 2018.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, NonNegativeInt

from dpsim.strategy.sync.gate import BarrierGate, Gate
from dpsim.strategy.sync.sync import Sync


class SspConfig(Sync):
    """Workers may be a bounded number of iterations apart."""

    label: ClassVar[str] = "SSP"

    kind: Literal["ssp"] = Field(description="Workers may be a bounded number of iterations apart.")
    staleness: NonNegativeInt = Field(
        default=3,
        description="s: number of iterations that the fastest worker may be ahead of the slowest.",
    )

    @property
    def difference(self) -> str:  # type: ignore[override]
        """The difference from plain training: gradients are stale, unless the staleness is 0."""
        return "gradients are stale" if self.staleness else ""

    @property
    def lag(self) -> int:  # type: ignore[override]
        """The steps that a worker may run ahead."""
        return self.staleness

    def gate(self, workers: int) -> Gate:
        """Return a gate that bounds clocks; with staleness 0 a barrier in each step."""
        return StalenessGate(workers, self.staleness) if self.staleness else BarrierGate(workers)


class StalenessGate(Gate):
    """Every gradient is applied as it arrives; clocks are at most ``staleness`` apart.

    In collectives of all workers, results may lag that many steps.
    """

    in_rounds: ClassVar[bool] = True

    def __init__(self, workers: int, staleness: int) -> None:
        # SSP limits who may continue, not which gradients count, so no gradient waits for another.
        super().__init__(workers, 1, workers, lag=staleness)

    @property
    def barrier(self) -> bool:
        """False: workers wait for clocks, not for updates."""
        return False

    @property
    def turn(self) -> int:
        """The slowest clock."""
        return self.clocks.slowest

    def may_go_on(self, worker: int) -> bool:
        """Return whether the worker is not too far ahead of the slowest."""
        # A clock counts finished iterations. With c finished, the worker would begin iteration c,
        # for which the slowest must have finished iteration c - s - 1, its (c - s)-th.
        return self.clocks[worker] - self.clocks.slowest <= self.lag
