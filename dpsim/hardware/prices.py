"""List prices of GPUs from prices.yaml, for scenarios that state none."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from dpsim.base.shipped import shipped_yaml
from dpsim.hardware.gpu import Gpu
from dpsim.hardware.sourced import Sourced

CURRENCY = "USD"


def list_price(gpu: Gpu) -> Sourced[float] | None:
    """Return the list price of ``gpu`` per hour, in USD, with its source; None if unlisted."""
    return _prices().get(gpu.name)


@cache
def _prices() -> dict[str, Sourced[float]]:
    listed = shipped_yaml(files(__package__).joinpath("prices.yaml"))
    return {name: Sourced[float].model_validate(price) for name, price in listed.items()}
