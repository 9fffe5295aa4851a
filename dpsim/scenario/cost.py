"""The cost of GPU time: its price, and the power it draws."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from dpsim.base.config import Config
from dpsim.base.errors import DpsimError
from dpsim.base.units import Count, Watts


class CostConfig(Config):
    """The price and the power of a GPU, and the amount of training to pay for."""

    price_per_gpu_hour: Annotated[float, Field(ge=0, le=1e6)] | None = Field(
        default=None,
        description=(
            "Price of one GPU for one hour, in the currency below; if left out, a list price in "
            "USD counts in totals and sweeps, and no other cost is reported."
        ),
    )
    currency: Annotated[str, StringConstraints(pattern="^[A-Z]{3}$")] = Field(
        default="USD", description="Currency code of three letters (ISO 4217)."
    )
    power_per_gpu: Watts | None = Field(
        default=None,
        description="Power of a computing GPU; its thermal design power if left out.",
    )
    waiting_power: Annotated[float, Field(ge=0, le=1)] = Field(
        default=1.0,
        description=(
            "Power of a waiting GPU, as a share of a computing one's. With the default of 1, "
            "energy is an upper bound."
        ),
    )
    power_per_node: Watts = Field(
        default=0.0, description="Power of the rest of a node: processors, memory, cards, fans."
    )
    pue: Annotated[float, Field(ge=1, le=10)] = Field(
        default=1.0,
        description="Power usage effectiveness: power of the building over power of the machines.",
    )
    tokens: Count | None = Field(
        default=None,
        description="Tokens to train on, such as 1T, for the total time and cost.",
    )
    samples: Count | None = Field(
        default=None, description="Samples to train on, instead of tokens."
    )
    epochs: Count | None = Field(
        default=None, description="Passes over the data set (workload.dataset), instead of tokens."
    )

    @model_validator(mode="after")
    def _one_amount(self) -> CostConfig:
        amounts = [name for name in ("tokens", "samples", "epochs") if getattr(self, name)]
        if len(amounts) > 1:
            raise DpsimError(
                f"must have one of tokens, samples and epochs, but got {' and '.join(amounts)}"
            )
        return self
