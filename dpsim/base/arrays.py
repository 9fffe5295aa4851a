"""The types of numpy arrays that signatures name, and what is asked of them everywhere."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
RealArray = NDArray[np.floating[Any]]  # training runs in single or in double precision


def latest(times: FloatArray) -> float:
    """The last of some times (s): of a few workers in half of the time that their `max` takes."""
    return float(np.maximum.reduce(times))
