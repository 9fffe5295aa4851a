"""The collectives of ``torch.distributed`` itself, timed and checked like a schedule.

Vectors are cut into equal chunks, one per rank; rank 0 is the root. Torch reduces and broadcasts in
place: out of place, the input is copied first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from dpsim.base.errors import DpsimError
from dpsim.collectives import OPERATIONS, Chunking
from validate.collectives.collective import Collective
from validate.collectives.payload import Part, promised_parts
from validate.ranks.processes import World

_ROOT = 0
# Torch 2.13 renames two functions; earlier versions only have the old names.
_all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
# Operations whose buffer holds a chunk for each rank.
CHUNKED = ("gather", "scatter", "all-gather", "reduce-scatter", "all-to-all")


class LibraryCollective(Collective):
    """``operation`` as the world's backend runs it.

    ``elements`` are rounded down to whole chunks, at least one element each.
    """

    def __init__(
        self,
        operation: str,
        elements: int,
        world: World,
        dtype: Any = torch.float32,
    ) -> None:
        OPERATIONS[operation]  # raises for an unknown one
        ranks = world.size
        whole = _whole_chunks(operation, elements, ranks)
        self._chunk = whole // ranks
        parts = _parts(operation, world.rank, ranks, whole)
        super().__init__(world, (whole, whole), parts, dtype)
        # In place, received data would overwrite chunks that have not been sent yet.
        self.in_place = operation != "all-to-all"
        # By name, so that an operation without a method here fails when it is asked for.
        self._call: Callable[[Any, Any], None] = getattr(self, "_" + operation.replace("-", "_"))

    def run(self, source: Any, target: Any) -> None:
        """Call the library and wait for it (on a GPU: let the stream wait)."""
        self._call(source, target)

    def _own(self, vector: Any) -> Any:
        start = self.world.rank * self._chunk
        return vector[start : start + self._chunk]

    def _chunks(self, vector: Any) -> list[Any] | None:
        """Return all chunks on the root, None elsewhere, as torch's rooted operations require."""
        if self.world.rank != _ROOT:
            return None
        return list(vector.split(self._chunk))

    def _all_reduce(self, source: Any, target: Any) -> None:
        _copy(source, target)
        dist.all_reduce(target)

    def _reduce(self, source: Any, target: Any) -> None:
        _copy(source, target)
        dist.reduce(target, _ROOT)

    def _broadcast(self, source: Any, target: Any) -> None:
        # The others' vectors are overwritten anyway, and a copy would count as time.
        if self.world.rank == _ROOT:
            _copy(source, target)
        dist.broadcast(target, _ROOT)

    def _gather(self, source: Any, target: Any) -> None:
        dist.gather(self._own(source), self._chunks(target), _ROOT)

    def _scatter(self, source: Any, target: Any) -> None:
        dist.scatter(self._own(target), self._chunks(source), _ROOT)

    def _all_gather(self, source: Any, target: Any) -> None:
        _all_gather_single(target, self._own(source))

    def _reduce_scatter(self, source: Any, target: Any) -> None:
        _reduce_scatter_single(self._own(target), source)

    def _all_to_all(self, source: Any, target: Any) -> None:
        dist.all_to_all_single(target, source)

    def _barrier(self, source: Any, target: Any) -> None:
        self.world.meet()


def _whole_chunks(operation: str, elements: int, ranks: int) -> int:
    """Round ``elements`` down to equal chunks if ``operation`` cuts its vector.

    A chunk has at least one element.
    """
    if operation == "barrier":
        return 0
    if elements < 0:
        raise DpsimError(f"a vector must have at least 0 elements, but got {elements}")
    return max(elements // ranks, 1) * ranks if operation in CHUNKED else elements


def _parts(operation: str, rank: int, ranks: int, elements: int) -> tuple[Part, ...]:
    """Return the promised parts, those of a schedule except for all-to-all.

    The library's all-to-all takes and gives one vector, whose chunk i is for and from rank i.
    """
    if operation != "all-to-all":
        return promised_parts(operation, rank, ranks, Chunking(elements, ranks))
    chunk = elements // ranks
    return tuple(
        Part(source * chunk, (source + 1) * chunk, (source,), rank * chunk)
        for source in range(ranks)
    )


def _copy(source: Any, target: Any) -> None:
    if target is not source:
        target.copy_(source)
