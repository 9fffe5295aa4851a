"""Which buckets suit a step of DistributedDataParallel.

Gradients become ready as the trace says; a bucket's all-reduce starts when its last gradient is
ready and the one before has ended. The step is as long as the later of both streams.
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
_SAME = 1e-3  # of the step: choices this near are alike, and the more usual one is taken

Choice = tuple[float, float]  # MiB of a bucket and of the first


@dataclass(frozen=True, slots=True)
class Gradient:
    """Bytes of a layer's gradients, and when they are ready (s after backward begins)."""

    nbytes: float
    ready: float


@dataclass(frozen=True, slots=True)
class Backward:
    """The backward pass of a step: its gradients as they become ready, and when it ends (s)."""

    gradients: tuple[Gradient, ...]
    end: float
    line: Line

    def ends(self, buckets: Iterator[tuple[float, float]]) -> float:
        """When backward and communication have ended, with (bytes, ready) of each bucket."""
        free = 0.0
        for nbytes, ready in buckets:
            free = max(free, ready) + self.line.seconds(nbytes)
        return max(self.end, free)

    def with_buckets(self, choice: Choice) -> float:
        """The end, with buckets as torch fills them: closed once they hold the limit."""
        return self.ends(filled(self.gradients, choice))

    def as_measured(self, sizes: Sequence[int]) -> float:
        """The end, with the traced buckets."""
        return self.ends(_cut(self.gradients, sizes))

    def best(self) -> Choice:
        """The choice with which the step ends first; of choices alike, the most usual."""
        found = {choice: self.with_buckets(choice) for choice in self._choices()}
        least = min(found.values()) * (1 + _SAME)
        alike = [choice for choice, end in found.items() if end <= least]
        return min(alike, key=_unusual)

    def _choices(self) -> Iterator[Choice]:
        """Sizes not far below the smallest measured call: there the line says nothing."""
        least = min(self.line.smallest / 2 / MIB, DEFAULT[1])
        caps = [float(cap) for cap in _CAPS if cap >= least]
        firsts = [float(first) for first in _FIRSTS if first >= least]
        yield from ((cap, first) for cap, first in product(caps, firsts) if first < cap)
        yield from ((cap, cap) for cap in caps)


def filled(gradients: Sequence[Gradient], choice: Choice) -> Iterator[tuple[float, float]]:
    """(bytes, ready) of each bucket, in the order in which gradients become ready."""
    cap, limit = choice[0] * MIB, choice[1] * MIB
    held = ready = 0.0
    for gradient in gradients:
        held, ready = held + gradient.nbytes, max(ready, gradient.ready)
        if held >= limit:
            yield held, ready
            held, limit = 0.0, cap
    if held:
        yield held, ready


def _cut(gradients: Sequence[Gradient], sizes: Sequence[int]) -> Iterator[tuple[float, float]]:
    """The buckets of these sizes: each is ready with the last gradient that it has a part of."""
    left = list(gradients)
    carried = 0.0  # bytes of the front gradient that are in buckets already
    ready = 0.0
    for size in sizes:
        # What the trace says was sent and what layers have need not agree to the byte, so a
        # gradient may lie across two buckets here, which torch would not do.
        missing = float(size)
        while left and missing > 0.5:  # half a byte: sums of floats
            part = min(missing, left[0].nbytes - carried)
            ready, missing, carried = max(ready, left[0].ready), missing - part, carried + part
            if carried >= left[0].nbytes - 0.5:
                left.pop(0)
                carried = 0.0
        yield float(size), ready


def _unusual(choice: Choice) -> tuple[float, float]:
    """How far from torch's own sizes."""
    cap, first = choice
    return abs(log(cap / DEFAULT[0])), abs(log(first / DEFAULT[1]))


def code(choice: Choice) -> str:
    """The line of torch code that asks for it."""
    cap, first = choice
    if choice == DEFAULT:
        return "model = DistributedDataParallel(model)"
    if cap == first:
        return f"model = DistributedDataParallel(model, bucket_cap_mb={cap:g})"
    return f"model = DistributedDataParallel(model, bucket_cap_mb_list=[{first:g}, {cap:g}])"
