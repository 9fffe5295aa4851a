"""Real data that ships inside a package: scikit-learn's 1,797 handwritten digits.

They have 8 x 8 pixels of 17 greys, and 10 classes. Source: Alpaydin and Kaynak, "Optical
recognition of handwritten digits", UCI machine learning repository, 1998 (its test set).
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from dpsim.base.errors import DpsimError, how_to_install

LIBRARY = "sklearn.datasets"
"""Where they are from, which is imported when they are first asked for."""

_WHITE = 16.0  # the largest value of a pixel


@dataclass(frozen=True, slots=True, eq=False)
class Digits:
    """``images``: (samples, 1, 8, 8), 0 to 1. ``labels``: (samples,), 0 to 9."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


def digits(precision: str, device: Any = "cpu") -> Digits:
    """All samples on ``device``. Raises DpsimError where scikit-learn is not installed."""
    pixels, labels = _loaded()
    images = torch.as_tensor(pixels, dtype=getattr(torch, precision), device=device) / _WHITE
    return Digits(images.reshape(-1, 1, 8, 8), torch.as_tensor(labels, device=device))


@cache
def _loaded() -> tuple[Any, Any]:
    try:
        datasets = importlib.import_module(LIBRARY)
    except ModuleNotFoundError:
        raise DpsimError(
            f"training on the digits needs scikit-learn; {how_to_install('validate')}"
        ) from None
    pixels, labels = datasets.load_digits(return_X_y=True)
    return pixels, labels
