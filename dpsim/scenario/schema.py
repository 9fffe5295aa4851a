"""The scenario: one experiment, as its YAML file says it. Each kind's own model stands beside the kind."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, StringConstraints, model_validator

from dpsim.aggregation import AggregationConfig, AllReduceConfig
from dpsim.compression import CompressionConfig, NoCompressionConfig
from dpsim.config import Config
from dpsim.disturbance import (
    BackgroundConfig,
    CrashesConfig,
    JitterConfig,
    LinkChangeConfig,
    SlowWorkersConfig,
    TransientConfig,
)
from dpsim.overlap import BucketsConfig, OverlapConfig
from dpsim.scenario.combinations import refusal
from dpsim.sync import BspConfig, SyncConfig
from dpsim.topology import ClusterConfig
from dpsim.units import PositiveSeconds
from dpsim.workload import WorkloadConfig


class StrategyConfig(Config):
    """How gradients meet, when, and what runs beside what."""

    aggregation: AggregationConfig = Field(default=AllReduceConfig(kind="allreduce"), description="How gradients meet.")
    sync: SyncConfig = Field(default=BspConfig(kind="bsp"), description="When they meet.")
    overlap: OverlapConfig = Field(default=BucketsConfig(kind="buckets"), description="What runs beside the backward pass.")
    compression: CompressionConfig = Field(
        default=NoCompressionConfig(kind="none"), description="What is done to gradients before they travel."
    )
    average_loss: bool = Field(default=False, description="All workers average their loss after each forward pass, to report it.")

    @model_validator(mode="after")
    def _go_together(self) -> StrategyConfig:
        why = refusal(self)
        if why is not None:
            raise ValueError(why)
        return self


class DisturbanceConfig(Config):
    """What keeps steps from being alike."""

    jitter: JitterConfig | None = Field(default=None, description="Random variation of compute times; none if left out.")
    slow: tuple[SlowWorkersConfig, ...] = Field(default=(), description="Workers that are always slower.")
    transient: tuple[TransientConfig, ...] = Field(default=(), description="Slow-downs that come and go.")
    crashes: CrashesConfig | None = Field(default=None, description="Workers that fail: checkpoints, restarts and goodput.")
    background: tuple[BackgroundConfig, ...] = Field(default=(), description="Other traffic on the network.")
    links: tuple[LinkChangeConfig, ...] = Field(default=(), description="Links that slow down, are cut or come back.")


class RunConfig(Config):
    """How the scenario is simulated."""

    steps: Annotated[int, Field(ge=1, le=1_000_000)] = Field(default=50, description="Steps that count.")
    warmup: Annotated[int, Field(ge=0, le=1_000_000)] = Field(default=5, description="Steps before those, which do not.")
    seed: NonNegativeInt = Field(default=0, description="Seed of every random stream.")
    network_model: Literal["auto", "rounds", "flows"] = Field(
        default="auto", description="How collectives are timed: by rounds, by fluid flows, or by the cheaper one that can."
    )
    allow_out_of_memory: bool = Field(default=False, description="Simulate it also where it does not fit in the GPUs' memory.")


class MeasuredStep(Config):
    """A measured step of this very scenario on fewer nodes: compute times are scaled until the prediction there equals it."""

    nodes: PositiveInt = Field(default=1, description="Number of nodes on which the step was measured.")
    step_time: PositiveSeconds = Field(description="Mean time of a step there.")
    source: str = Field(min_length=1, description="Where the measurement is from.")


class Scenario(Config):
    """One experiment."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(description="What the experiment is called.")
    cluster: ClusterConfig = Field(description="The machines and what joins them.")
    workload: WorkloadConfig = Field(description="What each worker computes.")
    strategy: StrategyConfig = Field(default=StrategyConfig(), description="How and when gradients meet.")
    disturbance: DisturbanceConfig = Field(default=DisturbanceConfig(), description="What keeps steps from being alike.")
    run: RunConfig = Field(default=RunConfig(), description="How it is simulated.")
    calibration: Literal["catalogue"] | MeasuredStep = Field(
        default="catalogue",
        description="Where compute times come from: the catalogue's figures, or those scaled to a measured step.",
    )
