"""Step times of one GPU."""

from validate.published.single_gpu.comparison import REQUIRED, TABLE, compare, fit_rows
from validate.published.single_gpu.model import (
    figures_of,
    fit,
    measured_seconds,
    peak_of,
    products_in,
)

__all__ = [
    "REQUIRED",
    "TABLE",
    "compare",
    "figures_of",
    "fit",
    "fit_rows",
    "measured_seconds",
    "peak_of",
    "products_in",
]
