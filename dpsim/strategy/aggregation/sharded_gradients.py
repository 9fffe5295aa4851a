"""How the gradients of sharded training travel."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dpsim.base.config import Config


class GradientsConfig(Config):
    """How gradients travel, and what becomes of them in passes before the last."""

    dtype: Literal["fp32", "bf16"] = Field(default="fp32", description="What they travel in.")
    collective: Literal["reduce-scatter", "all-reduce"] = Field(
        default="reduce-scatter",
        description=(
            "reduce-scatter: each worker gets what it updates. all-reduce: all workers get all, of "
            "which stage 1 then uses a part (InternEvo, torch's ZeroRedundancyOptimizer)."
        ),
    )
    sync_each_pass: bool = Field(
        default=False,
        description=(
            "They are reduced after every pass, so that only shards are kept; false (no_sync) "
            "adds whole gradients up and reduces them after the last pass."
        ),
    )

    @property
    def width(self) -> int:
        """Bytes of an element on its way."""
        return 4 if self.dtype == "fp32" else 2
