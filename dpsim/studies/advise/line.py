"""The time of a collective by its bytes: a line through the calls of a trace."""

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
        """Return the line on which latency is half of the largest call's time.

        Calls of a single size do not determine the latency.
        """
        whole = self.seconds(self.largest)
        return replace(self, latency=whole / 2, per_byte=whole / 2 / self.largest)

    def seconds(self, nbytes: float) -> float:
        """Return the time of a call on ``nbytes``, in s."""
        return self.latency + self.per_byte * nbytes


def through(calls: Sequence[MeasuredCollective]) -> Line:
    """Fit a line through the ``calls``, all with bytes and seconds; neither part is below zero.

    Calls of one size count once, by their median, since some waited for other ranks. With a single
    size the latency cannot be determined and is taken as zero. Sizes are weighted so that relative
    errors count.
    """
    sizes = sorted({call.payload_bytes for call in calls})
    taken = [
        float(np.median([call.duration_s for call in calls if call.payload_bytes == size]))
        for size in sizes
    ]
    x, y = np.array(sizes, dtype=float), np.array(taken)
    latency, per_byte = 0.0, float(np.median(y / x))
    if len(sizes) > 1:
        # Solves (latency + per_byte x) / y = 1 for all sizes: each row's residual is its relative
        # error, so that small messages count as much as large ones.
        weighted = np.stack([1 / y, x / y], axis=1)
        solved = np.linalg.lstsq(weighted, np.ones(len(y)), rcond=None)[0]
        # If only the latency came out below zero, keep the line through the origin from above.
        if solved.min() >= 0:
            latency, per_byte = map(float, solved)
        elif solved[1] < 0:  # larger calls took no longer
            latency, per_byte = float(np.median(y)), 0.0
    off = [abs((latency + per_byte * call.payload_bytes) / call.duration_s - 1) for call in calls]
    return Line(latency, per_byte, float(np.median(off)), sizes[0], sizes[-1])
