"""What happens to the network while the job runs.

Other traffic, and links that slow down, are cut or come back.
"""

from __future__ import annotations

from pydantic import Field, NonNegativeInt, model_validator

from dpsim.base.config import Config
from dpsim.base.units import BytesPerSecond, Seconds


class BackgroundConfig(Config):
    """Traffic without end from one GPU to another, which takes its max-min fair share."""

    source: NonNegativeInt = Field(description="Rank of the GPU that sends.")
    destination: NonNegativeInt = Field(description="Rank of the GPU that receives.")
    rate: BytesPerSecond | None = Field(
        default=None, description="At most this rate; as much as it can get if left out."
    )

    @model_validator(mode="after")
    def _apart(self) -> BackgroundConfig:
        if self.source == self.destination:
            raise ValueError(
                f"source and destination must be different GPUs, but got {self.source} twice"
            )
        return self


class LinkChangeConfig(Config):
    """From a given time on, links have another rate."""

    link: str = Field(
        min_length=1,
        description=(
            "Links by name, * for any text: 'node0/nic0->switch' (dpsim topology lists them)."
        ),
    )
    at: Seconds = Field(
        default=0.0, description="When, from the start of the run, warm-up included."
    )
    factor: float = Field(
        ge=0, le=1e6, description="Times their own rate; 0 cuts them, 1 brings them back."
    )
