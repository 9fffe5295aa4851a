"""What an overlap policy is, and what it may know: when calls become ready, and what they cost."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from dpsim.base.arrays import FloatArray
from dpsim.base.config import Config
from dpsim.strategy.aggregation import CollectiveCall
from dpsim.workload import Model, Program


@dataclass(frozen=True, eq=False)
class Outlook:
    """What a policy may know: when operations become ready, and what a collective costs.

    ``positions`` are seconds of computing up to each position of a step of ``passes`` passes, the
    last after the optimiser. A collective on n bytes takes ``alpha + beta n`` s, which is told to
    those alone that mind times. ``number`` is the pass whose gradients are planned. ``rebuilt``:
    buckets follow the order in which gradients become ready, not that of parameters.
    """

    positions: FloatArray
    alpha: float
    beta: float
    passes: int = 1
    number: int = 0
    rebuilt: bool = True

    @cached_property
    def program(self) -> Program:
        """The positions of the step."""
        # A pass has each layer twice; besides there are the start, and the end of the update.
        return Program((len(self.positions) - 2) // 2 // self.passes, self.passes)

    @cached_property
    def pass_end(self) -> int:
        """Where the backward pass ends that makes the gradients ready."""
        return self.program.begin(self.number + 1)

    def ready(self, call: CollectiveCall) -> float:
        """Seconds from the start of a step until ``call`` can start."""
        return float(self.positions[call.ready])

    def seconds(self, nbytes: int) -> float:
        """How long a collective on ``nbytes`` takes."""
        return self.alpha + self.beta * nbytes


class Overlap(Config):
    """Merges and orders the calls of a step on gradients.

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
        """The ``calls`` on gradients of one pass, merged and in order."""
