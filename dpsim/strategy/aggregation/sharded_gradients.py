"""The format and the collective of gradients in sharded training."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dpsim.base.config import Config
from dpsim.workload import Model


class GradientsConfig(Config):
    """How gradients are sent, and whether passes before the last reduce them."""

    dtype: Literal["fp32", "bf16"] | None = Field(
        default=None,
        description="Data type of sent gradients; workload.parameter_dtype if left out.",
    )
    collective: Literal["reduce-scatter", "all-reduce"] = Field(
        default="reduce-scatter",
        description=(
            "reduce-scatter: each worker gets the gradients that it updates with. all-reduce: "
            "every worker gets all gradients, and stage 1 uses its part (InternEvo, torch's "
            "ZeroRedundancyOptimizer)."
        ),
    )
    sync_each_pass: bool = Field(
        default=False,
        description=(
            "true: gradients are reduced after every pass, and only shards are kept; false "
            "(no_sync): whole gradients accumulate and are reduced after the last pass."
        ),
    )

    def width(self, model: Model) -> int:
        """Return the bytes of a gradient of ``model`` as it is sent."""
        return model.parameter_bytes if self.dtype is None else 4 if self.dtype == "fp32" else 2
