"""Real data shipped with dpsim: 1,797 handwritten digits, also used by its replays.

They have 8 x 8 pixels of 17 greys, and 10 classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpsim.studies.replay.learning import WHITE, all_digits


@dataclass(frozen=True, slots=True, eq=False)
class Digits:
    """``images``: (samples, 1, 8, 8), 0 to 1. ``labels``: (samples,), 0 to 9."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


def digits(precision: str, device: Any = "cpu") -> Digits:
    """Return all samples on ``device``."""
    pixels, labels = all_digits()
    images = torch.as_tensor(pixels, dtype=getattr(torch, precision), device=device) / WHITE
    return Digits(images.reshape(-1, 1, 8, 8), torch.as_tensor(labels, device=device))
