"""Scaling efficiencies of data-parallel training."""

from validate.published.scaling.comparison import IDENTITY, REQUIRED, TABLE, compare
from validate.published.scaling.model import fit, nic_rate, stated_step

__all__ = [
    "IDENTITY",
    "REQUIRED",
    "TABLE",
    "compare",
    "fit",
    "nic_rate",
    "stated_step",
]
