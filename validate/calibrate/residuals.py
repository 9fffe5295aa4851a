"""Errors of rows as a profile tells them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from dpsim.hardware import Residuals

Counted = Literal["fitted rows", "held-out rows"]


def residuals_of(
    errors: Sequence[float], counted_on: Counted, sizes: Sequence[int] = ()
) -> Residuals:
    """Of relative errors, one a row; ``sizes`` are the rows' bytes, where they have any."""
    off = np.abs(errors)
    worst = int(off.argmax())
    return Residuals(
        counted_on=counted_on,
        n=len(off),
        median_ape=float(np.median(off)),
        mean_ape=float(off.mean()),
        p95_ape=float(np.percentile(off, 95)),
        worst_ape=float(off.max()),
        worst_bytes=sizes[worst] if sizes else 0,
    )
