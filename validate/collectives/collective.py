"""The interface of a collective to time and check: it takes a tensor and gives a tensor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch

from validate.collectives.payload import Check, Part, poison, values
from validate.ranks.processes import World


class Collective(ABC):
    """One collective operation, from the view of one rank.

    ``elements_in`` go in and ``elements_out`` come out, of ``dtype``. ``parts`` are the parts of
    the output that it promises. ``in_place`` says whether input and output may be the same tensor,
    ``out_of_place`` whether they may differ (an operation of torch that works in place is then
    preceded by a copy, which is part of its time).
    """

    in_place = True
    out_of_place = True

    def __init__(
        self,
        world: World,
        elements: tuple[int, int],
        parts: Sequence[Part],
        dtype: Any = torch.float32,
    ) -> None:
        self.world = world
        self.elements_in, self.elements_out = elements
        self.parts = parts
        self.dtype = dtype

    @abstractmethod
    def run(self, source: Any, target: Any) -> None:
        """Run the collective; on a GPU it may still be running when this returns."""

    def buffers(self, *, in_place: bool) -> tuple[Any, Any]:
        """Return an input and an output tensor on the device, the same one if ``in_place``."""
        source = torch.empty(self.elements_in, dtype=self.dtype, device=self.world.device)
        if in_place:
            return source, source
        return source, source.new_empty(self.elements_out)

    def prepare(self, source: Any, target: Any) -> None:
        """Put the rank's input into ``source``, and invalid values into a separate ``target``."""
        source.copy_(self._input)
        if target is not source:
            poison(target)

    def wrong(self, target: Any) -> int:
        """Return how many promised elements of an output are wrong."""
        return self._check.wrong(target)

    @cached_property
    def _input(self) -> Any:
        return values(self.world.rank, 0, self.elements_in, self.dtype, self.world.device)

    @cached_property
    def _check(self) -> Check:
        return Check(self.parts, self.dtype, self.world.device)
