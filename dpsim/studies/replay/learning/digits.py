"""A data set of 1,797 handwritten digits of 8 x 8 pixels; every fifth one is for testing.

Pixels have 17 greys, and there are 10 classes. ``digits.npz`` holds ``pixels`` (1797, 64), 0 to 16,
and ``labels`` (1797,). They are the test set of Alpaydin and Kaynak, "Optical recognition of
handwritten digits", UCI machine learning repository, 1998, https://archive.ics.uci.edu/dataset/80,
licence CC BY 4.0, in scikit-learn's order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from dpsim.base.arrays import IntArray, RealArray

SIDE = 8
CLASSES = 10
WHITE = 16.0
_TEST_EVERY = 5


@dataclass(frozen=True, slots=True, eq=False)
class Digits:
    """The training and test images.

    ``images`` (samples, 64), 0 to 1, and ``labels`` (samples,), 0 to 9.
    """

    images: RealArray
    labels: IntArray
    test_images: RealArray
    test_labels: IntArray


@cache
def all_digits() -> tuple[IntArray, IntArray]:
    """Return pixels (samples, 64), 0 to `WHITE`, and labels (samples,), without a split."""
    path = files("dpsim.studies.replay.learning") / "digits.npz"
    with path.open("rb") as file, np.load(file) as held:
        return held["pixels"], held["labels"].astype(np.int64)


@cache
def digits() -> Digits:
    """Return all samples."""
    pixels, labels = all_digits()
    images = pixels / WHITE
    test = np.arange(len(labels)) % _TEST_EVERY == 0
    return Digits(images[~test], labels[~test], images[test], labels[test])
