"""The ``strategy`` part of a scenario."""

from __future__ import annotations

from pydantic import Field, model_validator

from dpsim.base.config import Config
from dpsim.strategy.aggregation import AggregationConfig, AllReduceConfig
from dpsim.strategy.combinations import refusal
from dpsim.strategy.compression import CompressionConfig, NoCompressionConfig
from dpsim.strategy.overlap import BucketsConfig, OverlapConfig
from dpsim.strategy.sync import BspConfig, SyncConfig
from dpsim.topology import Mesh


class StrategyConfig(Config):
    """How gradients are aggregated, when, and what overlaps."""

    aggregation: AggregationConfig = Field(
        default=AllReduceConfig(kind="allreduce"), description="How gradients are aggregated."
    )
    sync: SyncConfig = Field(default=BspConfig(kind="bsp"), description="When workers synchronise.")
    overlap: OverlapConfig = Field(
        default=BucketsConfig(kind="buckets"),
        description="Overlap of communication with the backward pass.",
    )
    compression: CompressionConfig = Field(
        default=NoCompressionConfig(kind="none"),
        description="Compression of gradients before they are sent.",
    )
    average_loss: bool = Field(
        default=False,
        description=(
            "All workers average their loss once a step, after its last forward pass, to report it."
        ),
    )

    @model_validator(mode="after")
    def _check_combination(self) -> StrategyConfig:
        why = refusal(self)
        if why is not None:
            raise ValueError(why)
        return self

    @property
    def inexact(self) -> list[str]:
        """Descriptions of the parts that change updates compared with plain synchronous training.

        Plain training applies the gradients of all workers, on the newest parameters, uncompressed.
        """
        found = []
        if not self.compression.exact:
            found.append(f"compression {self.compression.kind} (gradients lose digits or entries)")
        if not self.aggregation.one_version:
            found.append(f"aggregation {self.aggregation.kind} (workers hold models of their own)")
        if self.sync.difference:
            found.append(f"sync {self.sync.kind} ({self.sync.difference})")
        return found

    @property
    def wrapper(self) -> str | None:
        """The torch wrapper of the model: ddp, fsdp2, or None if none is needed."""
        stage = self.aggregation.sharding_stage
        if stage is not None:
            return "ddp" if stage == 1 else "fsdp2"
        overlaps = self.overlap.overlaps and not self.sync.has_groups
        return "ddp" if overlaps and self.aggregation.all_reduce is not None else None

    def peers(self, mesh: Mesh) -> Mesh:
        """Return the workers of ``mesh`` that exchange gradients: all, or one group."""
        return Mesh(self.sync.group_size(mesh), None) if self.sync.has_groups else mesh
