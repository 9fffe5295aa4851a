"""The time of a collective by its bytes: a line fitted to the calls of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpsim.workload import MeasuredCollective


@dataclass(frozen=True, slots=True)
class Line:
    """A line ``latency + per_byte n`` (s) for n bytes; ``error`` is the calls' relative deviation.

    ``smallest`` and ``largest`` are the bytes of the calls that were fitted.
    """

    latency: float
    per_byte: float
    error: float
    smallest: int
    largest: int

    def half_latent(self) -> Line:
        """Return the line whose latency is half of the largest call's time."""
        whole = self.seconds(self.largest)
        return replace(self, latency=whole / 2, per_byte=whole / 2 / self.largest)

    def seconds(self, nbytes: float) -> float:
        """Return the seconds of a call on ``nbytes`` bytes."""
        return self.latency + self.per_byte * nbytes


def fit_line(calls: Sequence[MeasuredCollective]) -> Line:
    """Fit a line with nonnegative parts to ``calls``, all with bytes and seconds.

    Calls of one size count once, by their median, because some waited for other ranks. With a
    single size the latency is unknown and taken as zero. Sizes are weighted by relative errors.
    """
    sizes = sorted({call.payload_bytes for call in calls})
    taken = [
        float(np.median([call.duration_s for call in calls if call.payload_bytes == size]))
        for size in sizes
    ]
    x, y = np.array(sizes, dtype=float), np.array(taken)
    latency, per_byte = 0.0, float(np.median(y / x))
    if len(sizes) > 1:
        # (latency + per_byte x) / y = 1 for all sizes: residuals are relative errors.
        weighted = np.stack([1 / y, x / y], axis=1)
        solved = np.linalg.lstsq(weighted, np.ones(len(y)), rcond=None)[0]
        # If only the latency is negative, keep the line through the origin.
        if solved.min() >= 0:
            latency, per_byte = map(float, solved)
        elif solved[1] < 0:  # larger calls did not take longer
            latency, per_byte = float(np.median(y)), 0.0
    errors = [
        abs((latency + per_byte * call.payload_bytes) / call.duration_s - 1) for call in calls
    ]
    return Line(latency, per_byte, float(np.median(errors)), sizes[0], sizes[-1])
