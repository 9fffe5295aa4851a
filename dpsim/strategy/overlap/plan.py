"""What an overlap policy is, and what it may know: when calls become ready, and what they cost."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import ClassVar

from dpsim.base.arrays import FloatArray
from dpsim.base.config import Config
from dpsim.strategy.aggregation import CollectiveCall, in_order
from dpsim.workload import Model, Program


@dataclass(frozen=True, eq=False)
class Outlook:
    """What a policy may know: when operations become ready, and what a collective costs.

    ``positions`` are seconds of computing up to each position of a step of ``passes`` passes, the
    last after the optimiser. A collective on n bytes takes ``alpha + beta n`` s, which is told to
    those alone that mind times.
    """

    positions: FloatArray
    alpha: float
    beta: float
    passes: int = 1

    @cached_property
    def program(self) -> Program:
        """The positions of the step."""
        # A pass has each layer twice; besides there are the start, and the end of the update.
        return Program((len(self.positions) - 2) // 2 // self.passes, self.passes)

    def pass_of(self, gradient: CollectiveCall) -> int:
        """The pass whose backward makes ``gradient`` ready."""
        # A gradient that is ready where a pass ends is that pass's, not the next one's.
        return (gradient.ready - 1) // self.program.pass_length

    def pass_end(self, gradient: CollectiveCall) -> int:
        """Where that backward pass ends."""
        return self.program.begin(self.pass_of(gradient) + 1)

    def ready(self, call: CollectiveCall) -> float:
        """Seconds from the start of a step until ``call`` can start."""
        return float(self.positions[call.ready])

    def seconds(self, nbytes: int) -> float:
        """How long a collective on ``nbytes`` takes."""
        return self.alpha + self.beta * nbytes


class Overlap(Config):
    """Merges and orders the calls of a step.

    ``overlaps``: whether communication runs beside computation at all. ``front_first``: front
    layers overtake, so that the next step can start before the others have arrived.
    ``minds_times``: whether a plan depends on how long layers compute and collectives take.
    ``merges_nothing``: whether every tensor's gradient travels by itself, as soon as it is there.
    """

    overlaps: ClassVar[bool] = True
    front_first: ClassVar[bool] = False
    minds_times: ClassVar[bool] = False
    merges_nothing: ClassVar[bool] = False

    @property
    def size_of_buckets(self) -> float | None:
        """Bytes after which a bucket of gradients is closed, None without buckets."""
        return None

    def most_calls(self, model: Model) -> int:
        """How many calls on gradients a step of ``model`` has, about: one a layer."""
        return len(model.layers)

    @abstractmethod
    def plan(
        self, calls: tuple[CollectiveCall, ...], outlook: Outlook
    ) -> tuple[CollectiveCall, ...]:
        """The ``calls`` on gradients, merged and in order."""

    def step(
        self, calls: tuple[CollectiveCall, ...], outlook: Outlook
    ) -> tuple[CollectiveCall, ...]:
        """All calls of a step, those on gradients as planned and the others as they become ready.

        Without overlap the others start only where a pass waits for them.
        """
        gradients = tuple(call for call in calls if call.payload == "gradients")
        others = tuple(
            call if self.overlaps else replace(call, ready=call.needed)
            for call in calls
            if call.payload != "gradients"
        )
        # Gradients of two passes never share a bucket: the first are due before the second exist.
        planned: list[CollectiveCall] = []
        for _, of_a_pass in groupby(gradients, key=outlook.pass_of):
            planned += self.plan(tuple(of_a_pass), outlook)
        return in_order(tuple(planned), others)
