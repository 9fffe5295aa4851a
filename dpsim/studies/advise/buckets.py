"""Choose buckets for a step of DistributedDataParallel.

Gradients become ready as traced; a bucket's all-reduce starts when its last gradient is ready and
the previous all-reduce has ended. The step ends when both streams have ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import log

from dpsim.studies.advise.line import Line

MIB = 2**20
DEFAULT = (25.0, 1.0)  # MiB: torch's bucket_cap_mb, and its first bucket
_CAPS = (1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200, 256, 400, 512, 1024)
_FIRSTS = (1, 2, 5, 10, 25)
_EQUAL_WITHIN = 1e-3  # share of the step; closer choices are equal

Choice = tuple[float, float]  # MiB of a bucket and of the first


@dataclass(frozen=True, slots=True)
class Gradient:
    """The bytes of a layer's gradients, and when they are ready (s after the start of backward)."""

    nbytes: float
    ready: float


@dataclass(frozen=True, slots=True)
class Backward:
    """The backward pass of a step: its gradients in the order of readiness, and its end (s)."""

    gradients: tuple[Gradient, ...]
    end: float
    line: Line

    def ends(self, buckets: Iterator[tuple[float, float]]) -> float:
        """Return when backward and communication end, given (bytes, ready) of each bucket."""
        free = 0.0
        for nbytes, ready in buckets:
            free = max(free, ready) + self.line.seconds(nbytes)
        return max(self.end, free)

    def with_buckets(self, choice: Choice) -> float:
        """Return the end with buckets that torch fills."""
        return self.ends(fill_buckets(self.gradients, choice))

    def as_measured(self, sizes: Sequence[int]) -> float:
        """Return the end with the traced buckets."""
        return self.ends(_cut(self.gradients, sizes))

    def best(self) -> Choice:
        """Return the choice with the earliest end; of equal ones, that nearest to the default."""
        ends = {choice: self.with_buckets(choice) for choice in self._choices()}
        least = min(ends.values()) * (1 + _EQUAL_WITHIN)
        fastest = [choice for choice, end in ends.items() if end <= least]
        return min(fastest, key=_distance_from_default)

    def _choices(self) -> Iterator[Choice]:
        """Yield the sizes, except those far below all calls, where the fit is unreliable."""
        least = min(self.line.smallest / 2 / MIB, DEFAULT[1])
        caps = [float(cap) for cap in _CAPS if cap >= least]
        firsts = [float(first) for first in _FIRSTS if first >= least]
        yield from ((cap, first) for cap, first in product(caps, firsts) if first < cap)
        yield from ((cap, cap) for cap in caps)


def fill_buckets(gradients: Sequence[Gradient], choice: Choice) -> Iterator[tuple[float, float]]:
    """Yield (bytes, ready) of each bucket; a bucket is closed when it reaches the limit."""
    cap, limit = choice[0] * MIB, choice[1] * MIB
    filled_bytes = ready = 0.0
    for gradient in gradients:
        filled_bytes, ready = filled_bytes + gradient.nbytes, max(ready, gradient.ready)
        if filled_bytes >= limit:
            yield filled_bytes, ready
            filled_bytes, limit = 0.0, cap
    if filled_bytes:
        yield filled_bytes, ready


def _cut(gradients: Sequence[Gradient], sizes: Sequence[int]) -> Iterator[tuple[float, float]]:
    """Yield the buckets of the given sizes; each is ready with the last gradient it contains."""
    remaining = list(gradients)
    used = 0.0  # bytes of the first gradient that are in previous buckets
    ready = 0.0
    for size in sizes:
        # Unlike torch, split gradients, since traced bytes and layers' bytes may differ slightly.
        missing = float(size)
        while remaining and missing > 0.5:  # half a byte, because of rounding
            part = min(missing, remaining[0].nbytes - used)
            ready, missing, used = max(ready, remaining[0].ready), missing - part, used + part
            if used >= remaining[0].nbytes - 0.5:
                remaining.pop(0)
                used = 0.0
        yield float(size), ready


def _distance_from_default(choice: Choice) -> tuple[float, float]:
    """Return the logarithmic distances from torch's default sizes."""
    cap, first = choice
    return abs(log(cap / DEFAULT[0])), abs(log(first / DEFAULT[1]))


def code(choice: Choice) -> str:
    """Return the line of torch code for a choice."""
    cap, first = choice
    if choice == DEFAULT:
        return "model = DistributedDataParallel(model)"
    if cap == first:
        return f"model = DistributedDataParallel(model, bucket_cap_mb={cap:g})"
    return f"model = DistributedDataParallel(model, bucket_cap_mb_list=[{first:g}, {cap:g}])"
