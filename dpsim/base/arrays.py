"""Types of numpy arrays for signatures, and a common function of time spans."""

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
RealArray = NDArray[np.floating[Any]]  # training runs in single or double precision


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the seconds covered by at least one of the spans from a begin to an end (s)."""
    seconds, reached = 0.0, -np.inf
    # Only the part beyond all earlier spans counts.
    for begin, end in sorted(spans, key=itemgetter(0)):
        seconds += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return float(seconds)
