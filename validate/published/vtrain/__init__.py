"""Iteration times of GPT training inside a node (vTrain)."""

from validate.published.vtrain.comparison import REQUIRED, TABLE, compare
from validate.published.vtrain.model import fit

__all__ = [
    "REQUIRED",
    "TABLE",
    "compare",
    "fit",
]
