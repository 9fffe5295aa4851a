"""The ``disturbance`` part of a scenario."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dpsim.base.config import Config
from dpsim.disturbance.crashes import CrashesConfig
from dpsim.disturbance.histogram import HistogramJitterConfig
from dpsim.disturbance.jitter import (
    CorrelatedJitterConfig,
    GammaJitterConfig,
    LognormalJitterConfig,
    ParetoJitterConfig,
)
from dpsim.disturbance.network_conditions import BackgroundConfig, LinkChangeConfig
from dpsim.disturbance.slow_workers import SlowWorkersConfig
from dpsim.disturbance.transient import TransientConfig

JitterConfig = Annotated[
    LognormalJitterConfig
    | GammaJitterConfig
    | ParetoJitterConfig
    | HistogramJitterConfig
    | CorrelatedJitterConfig,
    Field(discriminator="kind"),
]


class DisturbanceConfig(Config):
    """What keeps steps from being alike."""

    jitter: JitterConfig | None = Field(
        default=None, description="Random variation of compute times; none if left out."
    )
    slow: tuple[SlowWorkersConfig, ...] = Field(
        default=(), description="Workers that are always slower."
    )
    transient: tuple[TransientConfig, ...] = Field(
        default=(), description="Slow-downs that come and go."
    )
    crashes: CrashesConfig | None = Field(
        default=None, description="Workers that fail: checkpoints, restarts and goodput."
    )
    background: tuple[BackgroundConfig, ...] = Field(
        default=(), description="Other traffic on the network."
    )
    links: tuple[LinkChangeConfig, ...] = Field(
        default=(), description="Links that slow down, are cut or come back."
    )

    @property
    def on_links(self) -> bool:
        """Whether other traffic or changes of links meet what workers send."""
        return bool(self.background or self.links)
