"""The ``disturbance`` part of a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field, NonNegativeInt, model_validator

from dpsim.base.config import Config
from dpsim.base.kinds import Kinds, OnDemand
from dpsim.base.units import BytesPerSecond, Seconds
from dpsim.disturbance.jitter import Factors, Jitter

if TYPE_CHECKING:
    from dpsim.disturbance.crashes import CrashesConfig
    from dpsim.disturbance.slow_workers import SlowWorkersConfig
    from dpsim.disturbance.transient import TransientConfig

    JitterConfig = Jitter
else:
    _HOME = "dpsim.disturbance"
    _IN_ONE_FILE = dict.fromkeys(("lognormal", "gamma", "pareto", "correlated"), "jitter")
    # The order in which they are listed; a new kind is found by the name of its file.
    _ORDER = ("lognormal", "gamma", "pareto", "histogram", "correlated")
    JitterConfig = Annotated[object, Kinds("kind", _HOME, _ORDER, elsewhere=_IN_ONE_FILE)]
    CrashesConfig = Annotated[object, OnDemand(f"{_HOME}:CrashesConfig")]
    SlowWorkersConfig = Annotated[object, OnDemand(f"{_HOME}:SlowWorkersConfig")]
    TransientConfig = Annotated[object, OnDemand(f"{_HOME}:TransientConfig")]


class BackgroundConfig(Config):
    """Endless traffic from one GPU to another, which takes its max-min fair share."""

    source: NonNegativeInt = Field(description="Rank of the GPU that sends.")
    destination: NonNegativeInt = Field(description="Rank of the GPU that receives.")
    rate: BytesPerSecond | None = Field(
        default=None, description="Maximum rate; unlimited if left out."
    )

    @model_validator(mode="after")
    def _check_ends(self) -> BackgroundConfig:
        if self.source == self.destination:
            raise ValueError(
                f"source and destination must be different GPUs, but got {self.source} twice"
            )
        return self


class LinkChangeConfig(Config):
    """A change of the rates of some links at a given time."""

    link: str = Field(
        min_length=1,
        description=(
            "Links by name, * for any text: 'node0/nic0->switch' (dpsim topology lists them)."
        ),
    )
    at: Seconds = Field(
        default=0.0,
        description="Time of the change, from the start of the run (warm-up included).",
    )
    factor: float = Field(
        ge=0, le=1e6, description="Factor on the links' nominal rate; 0 cuts them, 1 restores them."
    )


class DisturbanceConfig(Config):
    """Disturbances that make steps vary."""

    jitter: JitterConfig | None = Field(
        default=None, description="Random variation of compute times; none if left out."
    )
    slow: tuple[SlowWorkersConfig, ...] = Field(
        default=(), description="Workers that are always slower."
    )
    transient: tuple[TransientConfig, ...] = Field(default=(), description="Temporary slow-downs.")
    crashes: CrashesConfig | None = Field(
        default=None, description="Workers that fail: checkpoints, restarts and goodput."
    )
    background: tuple[BackgroundConfig, ...] = Field(
        default=(), description="Other traffic on the network."
    )
    links: tuple[LinkChangeConfig, ...] = Field(
        default=(), description="Links that slow down, are cut or come back."
    )


def compute_factors(
    workers: int,
    steps: int,
    seed: int,
    per_node: int | Sequence[int],
    *,
    jitter: Jitter | None = None,
    slow: Sequence[SlowWorkersConfig] = (),
    transient: Sequence[TransientConfig] = (),
) -> Factors:
    """Return the factors on compute time, shape (steps, workers): the product of all disturbances.

    ``per_node``: workers of each node, or of node 0, 1, ... Each disturbance has a random stream
    per worker or group, so that draws depend neither on other workers nor on other disturbances.
    Raises DpsimError if a slow worker does not exist.
    """
    product = np.ones((steps, workers))
    if jitter is not None:
        product = jitter.factors(workers, steps, seed, per_node)
    for index, slowed in enumerate(slow):
        # Shape (workers,): the same in every step.
        product = product * slowed.factors(workers, seed, per_node, index)
    for index, slow_spells in enumerate(transient):
        product = product * slow_spells.factors(workers, steps, seed, per_node, index)
    return product
