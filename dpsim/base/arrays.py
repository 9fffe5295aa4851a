"""The types of numpy arrays that signatures name."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
RealArray = NDArray[np.floating[Any]]  # training runs in single or in double precision
