"""The inputs of ranks and the outputs they must get.

A rank's input is a fixed function of its rank and an element's place: small whole numbers,
different from place to place and from rank to rank, whose sums over the ranks stay exact in the
given type. Every rank can therefore compute every other's input, and outputs can be checked
exactly, whatever the order of the reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dpsim.collectives import Chunking

# nccl-tests' names of the types, as far as torch can reduce them.
TYPES: Mapping[str, Any] = {
    "int8": torch.int8,
    "uint8": torch.uint8,
    "int32": torch.int32,
    "int64": torch.int64,
    "half": torch.float16,
    "float": torch.float32,
    "double": torch.float64,
    "bfloat16": torch.bfloat16,
}

_BLOCK = 2**20  # elements made at once: a hash takes 8 bytes of each, whatever its type
_MASK = 2**32 - 1


def values(rank: int, start: int, end: int, dtype: Any, device: Any = "cpu") -> Any:
    """Elements ``start .. end - 1`` of the input of ``rank``, made on ``device``.

    Seven values around 0 (from 0 up where the type has no sign); hashed, so that no other place or
    rank has the same run of them.
    """
    made = torch.empty(end - start, dtype=dtype, device=device)
    for first in range(start, end, _BLOCK):
        last = min(first + _BLOCK, end)
        made[first - start : last - start] = _block(rank, first, last, dtype, device)
    return made


def _block(rank: int, start: int, end: int, dtype: Any, device: Any) -> Any:
    # A multiplicative hash by Knuth's constant, then one round of xxHash's avalanche.
    mixed = (torch.arange(start, end, device=device) * 2654435761 + rank * 2246822519) & _MASK
    mixed = ((mixed ^ (mixed >> 15)) * 2246822519) & _MASK
    mixed ^= mixed >> 13
    # At most 3 per rank: int8 holds the sum of 42 ranks, bfloat16 the sum of 85.
    return mixed % 7 - (0 if dtype == torch.uint8 else 3)


@dataclass(frozen=True, slots=True)
class Part:
    """Elements ``start .. end - 1`` of a rank's output.

    They are the inputs of ``sources`` from ``origin`` on, reduced.
    """

    start: int
    end: int
    sources: Sequence[int]
    origin: int

    def expected(self, dtype: Any, device: Any = "cpu") -> Any:
        """The elements, made on ``device``: on a GPU, a thousand times as fast as on its host."""
        last = self.origin + self.end - self.start
        made = (values(rank, self.origin, last, dtype, device) for rank in self.sources)
        first = next(made)
        for other in made:  # one at a time: all of them would be as many vectors as ranks
            first += other
        return first


def promised_parts(operation: str, rank: int, ranks: int, chunking: Chunking) -> tuple[Part, ...]:
    """Return the parts that `dpsim.collectives` promises ``rank`` at the end of ``operation``.

    All other elements are arbitrary.
    """
    everyone = range(ranks)

    def chunk(number: int, sources: Sequence[int]) -> Part:
        start, end = chunking.start(np.array([number, number + 1])).tolist()
        return Part(start, end, sources, start)

    whole = chunking.elements
    parts: dict[str, Callable[[], list[Part]]] = {
        "all-reduce": lambda: [Part(0, whole, everyone, 0)],
        "reduce": lambda: [] if rank else [Part(0, whole, everyone, 0)],
        "broadcast": lambda: [Part(0, whole, (0,), 0)],
        "scatter": lambda: [chunk(rank, (0,))],
        "gather": lambda: [] if rank else [chunk(source, (source,)) for source in everyone],
        "all-gather": lambda: [chunk(source, (source,)) for source in everyone],
        "reduce-scatter": lambda: [chunk(rank, everyone)],
        "all-to-all": lambda: [chunk(source * ranks + rank, (source,)) for source in everyone],
        "barrier": list,
    }
    return tuple(part for part in parts[operation]() if part.end > part.start)


class Check:
    """Counts elements of an output that are not as promised.

    The expected elements are made once and stay on ``device``.
    """

    def __init__(self, parts: Sequence[Part], dtype: Any, device: Any) -> None:
        self._parts = [
            (slice(part.start, part.end), part.expected(dtype, device)) for part in parts
        ]

    def wrong(self, output: Any) -> int:
        """Return how many promised elements of ``output`` differ, NaN included."""
        return sum(int((output[place] != expected).sum()) for place, expected in self._parts)


def poison(tensor: Any) -> None:
    """Fill a tensor with a value that no right output has, so that missing transfers show."""
    tensor.fill_(float("nan") if tensor.is_floating_point() else torch.iinfo(tensor.dtype).max)
