"""A step as a program: the positions at which each layer of each pass begins and ends.

A position counts the layer passes done so far, in a step of k passes over L layers. Pass p (from 0)
begins at 2 L p. Layer l (from 0) ends its forward pass at 2 L p + l + 1 and its backward pass at 2
L p + 2 L - l. All passes end at 2 L k, the optimiser's step at 2 L k + 1; position q of the next
step is 2 L k + 1 + q.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Program:
    """The positions of a step of ``passes`` micro-batches over ``layers`` layers."""

    layers: int
    passes: int = 1

    @property
    def pass_length(self) -> int:
        """Positions of one pass: each layer forward, each layer backward."""
        return 2 * self.layers

    @property
    def end(self) -> int:
        """The end of the last backward pass."""
        return self.pass_length * self.passes

    @property
    def updated(self) -> int:
        """The end of the optimiser's step, where the next step begins."""
        return self.end + 1

    @property
    def last(self) -> int:
        """The number of the last pass."""
        return self.passes - 1

    def begin(self, number: int) -> int:
        """Return the start of pass ``number``."""
        return self.pass_length * number

    def before_forward(self, number: int, layer: int) -> int:
        """Return the start of the forward pass of ``layer``."""
        return self.begin(number) + layer

    def turn(self, number: int) -> int:
        """Return the end of the forward part of pass ``number``, where its backward part begins."""
        return self.begin(number) + self.layers

    def before_backward(self, number: int, layer: int) -> int:
        """Return the start of the backward pass of ``layer``."""
        return self.begin(number + 1) - layer - 1

    def after_backward(self, number: int, layer: int) -> int:
        """Return the end of the backward pass of ``layer``."""
        return self.begin(number + 1) - layer

    def pass_of(self, position: int) -> int:
        """Return the pass of a call that is triggered at ``position``.

        Calls triggered at the end of a pass belong to the next pass, except in the last one.
        """
        return min(position // self.pass_length, self.last) if self.pass_length else 0

    def next_step(self, position: int) -> int:
        """Return a position of the next step, counted from the start of this one."""
        return self.updated + position

    def turns_between(self, begin: int, stop: int) -> Iterator[int]:
        """Yield the ends of forward, backward and update phases between ``begin`` and ``stop``."""
        # Phases change at multiples of L.
        first = begin // self.layers + 1
        turns = range(first * self.layers, min(stop, self.end + 1), self.layers)
        yield from turns
        yield stop

    def name_of(self, position: int) -> str:
        """Return the phase that ends at ``position``: "forward", "backward" or "update"."""
        if position > self.end:
            return "update"
        inside = (position - 1) % self.pass_length + 1
        return "forward" if inside <= self.layers else "backward"
