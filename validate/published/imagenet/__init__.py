"""The historic ImageNet records and MLPerf results."""

from validate.published.imagenet.comparison import (
    FITTED,
    REQUIRED,
    TABLE,
    compare,
    effects_without,
    public_effects,
)
from validate.published.imagenet.model import EFFECTS, Effects
from validate.published.imagenet.records import FILE
from validate.published.imagenet.steps import Curve, step_seconds

__all__ = [
    "EFFECTS",
    "FILE",
    "FITTED",
    "REQUIRED",
    "TABLE",
    "Curve",
    "Effects",
    "compare",
    "effects_without",
    "public_effects",
    "step_seconds",
]
