"""Types of numpy arrays for signatures, and common functions of time spans, bits and grids."""

from collections.abc import Iterable
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
RealArray = NDArray[np.floating[Any]]  # training runs in single or double precision

GOLDEN = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio, the increment of SplitMix64


def mix_bits(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 well mixed bits for each number: the finaliser of SplitMix64.

    Source: Steele et al., "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def covered_seconds(spans: Iterable[tuple[float, float]]) -> float:
    """Return the seconds covered by at least one of the spans from a begin to an end (s)."""
    in_order = sorted(spans)
    if not in_order:
        return 0.0
    begins, ends = np.array(in_order).T
    # Count only the part of a span beyond all earlier ones.
    reached = np.concatenate([[-np.inf], np.maximum.accumulate(ends)[:-1]])
    return float(np.maximum(ends - np.maximum(begins, reached), 0.0).sum())


def near_square(count: int) -> tuple[int, int]:
    """Return the two factors of ``count`` that are nearest to each other, the smaller first."""
    # Search down from the square root; the first divisor found is the nearest, at the latest 1.
    small = next(factor for factor in range(isqrt(count), 0, -1) if count % factor == 0)
    return small, count // small
