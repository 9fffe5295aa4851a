"""What the engine asks of a model of a collective.

When each rank finishes, and what each link carried.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import Flag, auto

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.collectives import Schedule, Traffic, traffic
from dpsim.topology import Network

_ROUNDING = 1e-12  # relative: a finish that is earlier than the bound by less is at it


class Ability(Flag):
    """What a model can take into account."""

    NONE = 0
    OWN_STARTS = auto()  # every rank starts at a time of its own
    UNEVEN_OVERLAP = auto()  # rounds of different ranks overlap on shared links
    CONDITIONS = auto()  # other traffic, and links that change


@dataclass(frozen=True, slots=True)
class MessageCosts:
    """What a rank pays beside the network.

    ``overhead`` s for each message it sends, ``gamma`` s for each byte it reduces.
    """

    overhead: float = 0.0
    gamma: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """When each rank finished (s, a vector over ranks), and what each link carried.

    ``loads`` are the bytes that each capacity of the network carried. ``rested_at`` is when its
    links will have saved up again all that they can (s), of rate limiters that do.
    """

    finishes: FloatArray
    loads: FloatArray
    rested_at: float = float("-inf")


def leaving_together(starts: FloatArray, meeting: IntArray, seconds: float) -> FloatArray:
    """When ranks leave: those of each row of ``meeting`` so long after the last has entered."""
    ends = np.empty_like(starts)
    ends[meeting] = starts[meeting].max(axis=1, keepdims=True) + seconds
    return ends


class CollectiveModel(ABC):
    """Times one collective operation on one network.

    ``finish(starts, nbytes)`` takes the time at which each rank enters (s, a vector over ranks) and
    the bytes of one rank's vector, and answers when each rank leaves and what each link carried. It
    keeps no state between calls that shows. ``network`` is where its capacities are. What it sends
    and the name of its algorithm are those of its ``schedule``; a model without one says its own.
    """

    abilities: Ability = Ability.NONE
    schedule: Schedule
    network: Network
    itemsize: int = 4

    def finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """When each rank finishes that enters at ``starts``, no earlier than its links allow."""
        return self._within_the_links(self._finish(starts, nbytes), starts)

    def finish_after(self, starts: FloatArray, nbytes: int, rested_at: float) -> Outcome:
        """The same after another operation on these links, which are rested at ``rested_at`` (s).

        Most models do not mind.
        """
        return self._within_the_links(self._finish_after(starts, nbytes, rested_at), starts)

    @abstractmethod
    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """When each rank finishes that enters at ``starts``, as the model has it."""

    def _finish_after(self, starts: FloatArray, nbytes: int, rested_at: float) -> Outcome:
        return self._finish(starts, nbytes)

    @property
    def saved(self) -> float:
        """Seconds at full rate that a link may have saved up before (token buckets)."""
        return 0.0

    def _within_the_links(self, outcome: Outcome, starts: FloatArray) -> Outcome:
        """``outcome``, later by what the busiest link still needs for its bytes.

        No link can carry more than its rate times the time from the first start to the last finish.
        Where a model says otherwise (rounds that overlap on a link, a library whose constants were
        fitted elsewhere), everyone finishes that much later.
        """
        busiest = float((outcome.loads / self.network.capacities).max(initial=0.0)) - self.saved
        short = float(starts.min()) + busiest - float(outcome.finishes.max())
        if short <= _ROUNDING * busiest:
            return outcome
        return replace(outcome, finishes=outcome.finishes + short)

    def traffic(self, nbytes: int) -> Traffic:
        """Bytes that each rank sends and receives."""
        return traffic(self.schedule, self.schedule.chunking(nbytes, self.itemsize))

    def algorithm_for(self, nbytes: int) -> str:
        """The name of the algorithm that carries out a collective of this size."""
        return self.schedule.algorithm


class ScheduleModel(CollectiveModel):
    """Carries out a schedule on a network, its vectors of elements of ``itemsize`` bytes."""

    def __init__(
        self,
        schedule: Schedule,
        network: Network,
        costs: MessageCosts | None = None,
        *,
        itemsize: int = 4,
    ) -> None:
        self.schedule = schedule
        self.network = network
        self.costs = costs or MessageCosts()
        self.itemsize = itemsize
