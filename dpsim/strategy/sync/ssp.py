"""Stale-synchronous parallel, SSP(s).

No worker begins iteration t before the slowest has finished iteration t - s - 1.

So clocks are at most s apart, and a worker reads at least all updates up to clock t - s - 1, its
own always. With parameter servers workers push and pull on their own. With an all-reduce a worker
begins t when the all-reduce of iteration t - s - 1 is through, which is the same bound. SSP(0) is
BSP. Source: Ho et al., "More effective distributed ML via a stale synchronous parallel parameter
server", NeurIPS 2013; with all-reduce: Li et al., "Pipe-SGD", NeurIPS 2018.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeInt

from dpsim.strategy.sync.sync import Sync


class SspConfig(Sync):
    """Workers may be a few iterations apart."""

    kind: Literal["ssp"] = Field(description="Workers may be a few iterations apart.")
    staleness: NonNegativeInt = Field(
        default=3, description="s: how many iterations the fastest may be ahead of the slowest."
    )

    @property
    def lag(self) -> int:
        """The staleness."""
        return self.staleness
