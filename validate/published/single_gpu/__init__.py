"""Step times of one GPU."""

from validate.published.single_gpu.comparison import REQUIRED, TABLE, compare, fit_rows
from validate.published.single_gpu.model import (
    FEATURES,
    find_gpu,
    fit,
    measured_seconds,
    peak_of,
    products_in,
)

__all__ = [
    "FEATURES",
    "REQUIRED",
    "TABLE",
    "compare",
    "find_gpu",
    "fit",
    "fit_rows",
    "measured_seconds",
    "peak_of",
    "products_in",
]
