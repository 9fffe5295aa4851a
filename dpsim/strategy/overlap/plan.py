"""The base of overlap policies, and their input: ready times of calls, and costs."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from dpsim.base.arrays import FloatArray
from dpsim.base.kinds import KindConfig
from dpsim.strategy.aggregation import Calls, CollectiveCall
from dpsim.workload import Model, Program


@dataclass(frozen=True, eq=False)
class Outlook:
    """The input of a policy: when operations become ready, and how long a collective takes.

    ``positions`` are seconds of computing up to each position of a step of ``passes`` passes, the
    last after the optimiser. A collective on n bytes takes ``alpha + beta n`` s, which only
    policies with ``needs_times`` get. ``number`` is the pass whose gradients are planned.
    ``rebuilt``: buckets follow the order in which gradients become ready, not the order of
    parameters.
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
        # A pass has each layer twice; the start and the end of the update are two more positions.
        return Program((len(self.positions) - 2) // 2 // self.passes, self.passes)

    @cached_property
    def pass_end(self) -> int:
        """The position at the end of the backward pass that makes the gradients ready."""
        return self.program.begin(self.number + 1)

    def ready(self, call: CollectiveCall) -> float:
        """Return the seconds from the start of a step until ``call`` can start."""
        return float(self.positions[call.ready])

    def seconds(self, nbytes: int) -> float:
        """Return the seconds that a collective on ``nbytes`` takes."""
        return self.alpha + self.beta * nbytes


class Overlap(KindConfig):
    """Merges and orders the calls on gradients of a step.

    ``overlaps``: whether communication overlaps with computation at all. ``front_first``: gradients
    of front layers overtake, so that the next step can start before the others have arrived.
    ``needs_times``: whether a plan depends on how long layers compute and collectives take.
    ``merges_nothing``: whether every tensor's gradient is sent separately, as soon as it is ready.
    """

    overlaps: ClassVar[bool] = True
    front_first: ClassVar[bool] = False
    needs_times: ClassVar[bool] = False
    merges_nothing: ClassVar[bool] = False

    @property
    def size_of_buckets(self) -> float | None:
        """Bytes after which a bucket of gradients is closed, None without buckets."""
        return None

    def most_calls(self, model: Model) -> int:
        """Return an estimate of the calls on gradients in a step of ``model``: one per layer."""
        return len(model.layers)

    @abstractmethod
    def plan(self, calls: Calls, outlook: Outlook) -> Calls:
        """Return the ``calls`` on gradients of one pass, merged and in order."""
