"""What the engine asks of a model of a collective: when each rank ends, what each link carried."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from enum import Flag, auto
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.budget import check, check_memory
from dpsim.collectives import OPERATIONS, Schedule, Traffic, traffic
from dpsim.network.conditions import NO_CONDITIONS, Conditions
from dpsim.network.outcome import Leave, MessageCosts, Outcome
from dpsim.topology import Network

if TYPE_CHECKING:
    from dpsim.base.doubt import Doubt
    from dpsim.network.flows import SharedNetwork

_ROUNDING = 1e-12  # relative: a finish that is earlier than the bound by less is at it
_MOST_KEPT = 1 << 20  # loads of links of which it is known what the busiest needs
_BYTES_A_TRANSFER, _BYTES_A_HOP = 120.0, 85.0


class Ability(Flag):
    """What a model can take into account."""

    NONE = 0
    OWN_STARTS = auto()  # every rank starts at a time of its own
    UNEVEN_OVERLAP = auto()  # rounds of different ranks overlap on shared links
    CONDITIONS = auto()  # other traffic, and links that change


def transfer_bytes(network: Network) -> float:
    """About how many bytes of memory a transfer takes where a round is laid out.

    Measured at the peak: its ends, chunks and times, and its route several times over.
    """
    return _BYTES_A_TRANSFER + _BYTES_A_HOP * most_hops(network)


def most_hops(network: Network) -> int:
    """About the links of the longest route."""
    # The first and the last rank are mostly as far apart as any two.
    ends = np.array([0]), np.array([network.ranks - 1])
    return network.routes(*ends).links.shape[1] if network.ranks > 1 else 1


def check_laid_out(schedule: Schedule, network: Network) -> None:
    """Raise FailedError where a round of ``schedule``, laid out in full, would have no room."""
    check_round(schedule, network, transfer_bytes(network) * schedule.most_at_once)


def check_round(schedule: Schedule, network: Network, nbytes: float) -> None:
    """Raise FailedError where a round of ``schedule`` that needs ``nbytes`` would have no room."""
    check_memory(nbytes, f"a round of {schedule.algorithm} on {network.ranks:,} ranks")


class Play(Protocol):
    """A collective under way on a network that others use, message by message."""

    def enter(self, ranks: IntArray) -> None:
        """``ranks`` enter it now."""


class CollectiveModel(ABC):
    """Times one collective operation on one network.

    ``finish(starts, nbytes)`` takes the time at which each rank enters (s, a vector over ranks) and
    the bytes of one rank's vector, and answers when each rank leaves and what each link carried. It
    keeps no state between calls that shows. ``network`` is where its capacities are. What it sends
    and the name of its algorithm are those of its ``schedule``; a model without one says its own.
    """

    abilities: Ability = Ability.NONE
    saved: float = 0.0
    """Seconds at full rate that a link may have saved up before (token buckets)."""
    schedule: Schedule
    network: Network
    conditions: Conditions = NO_CONDITIONS
    itemsize: int = 4
    # What was compared with measurements, of a model that keeps no residuals; "" of ideal ones.
    compared: ClassVar[str] = ""

    def finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """When each rank finishes that enters at ``starts``, no earlier than its links allow."""
        return self._within_the_links(self._finish(starts, nbytes), starts)

    def finish_after(self, starts: FloatArray, nbytes: int, rested_at: float) -> Outcome:
        """The same after another operation on these links, which are rested at ``rested_at`` (s).

        Most models do not mind.
        """
        return self._within_the_links(self._finish_after(starts, nbytes, rested_at), starts)

    def time_together(self, nbytes: int) -> float:
        """Seconds until the last rank has finished, where all enter together."""
        together = np.zeros(len(self.ends))
        return float(self.finish(together, nbytes).finishes.max())

    def end_together(self, begin: float, nbytes: int) -> float | None:
        """When all ranks have left that enter together at ``begin`` (s), at the same time.

        None where the model knows that only by carrying it out.
        """
        return None

    def loads(self, nbytes: int) -> FloatArray:
        """Bytes on each capacity during the operation, where all enter together."""
        return self.finish(np.zeros(len(self.ends)), nbytes).loads

    @abstractmethod
    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """When each rank finishes that enters at ``starts``, as the model has it."""

    def _finish_after(self, starts: FloatArray, nbytes: int, rested_at: float) -> Outcome:
        return self._finish(starts, nbytes)

    def doubt(self, nbytes: int) -> Doubt:
        """How far its time for ``nbytes`` may be off.

        A library says what its own model left of measured machines; the others are ideal.
        """
        from dpsim.network.residuals import described, ideal_doubt

        # On a bare switch each rank is a node of its own.
        nodes = getattr(self.network, "nodes", self.network.ranks)
        of = described(self.network)
        if self.compared:
            return ideal_doubt(nodes, nbytes, of, self.compared)
        return ideal_doubt(nodes, nbytes, of)

    @property
    def kin(self) -> tuple[str, ...] | None:
        """Measured machines that correct its times; None of a model that is corrected by none."""
        return None

    def sustained(self) -> float:
        """The share of its busiest link's rate at which it sends many bytes: an ideal one all."""
        return 1.0

    def _within_the_links(self, outcome: Outcome, starts: FloatArray) -> Outcome:
        """``outcome``, later by what the busiest link still needs for its bytes.

        No link can carry more than its rate times the time from the first start to the last finish.
        Where a model says otherwise (rounds that overlap on a link, a library whose constants were
        fitted elsewhere), everyone finishes that much later.
        """
        # What a link saved up while it was idle passes beside its rate.
        busiest = self._busiest_seconds(outcome.loads) - self.saved
        # The first rank mostly says already that there is time enough: the others only add to it.
        if starts[0] + busiest - outcome.finishes[0] <= _ROUNDING * busiest:
            return outcome
        short = _short(float(starts.min()), float(outcome.finishes.max()), busiest)
        return replace(outcome, finishes=outcome.finishes + short) if short else outcome

    def _busiest_seconds(self, loads: FloatArray) -> float:
        """What the busiest link needs for its bytes (s); of loads asked for lately, as then."""
        known: dict[int, tuple[FloatArray, float]] = self.__dict__.setdefault("_busiest", {})
        # Steps repeat a few collectives thousands of times, and clusters have many links.
        found = known.get(id(loads))
        if found is None:
            if len(known) * len(loads) > _MOST_KEPT:
                known.clear()
            # With the loads, so that no others can take their place in memory.
            found = loads, float((loads / self._most_rates).max(initial=0.0))
            known[id(loads)] = found
        return found[1]

    @cached_property
    def _most_rates(self) -> FloatArray:
        """The most that each link ever carries (B/s): some may become faster than they are."""
        rates = self.network.capacities.copy()
        for change in self.conditions.changes:
            most = self.network.capacities[change.link] * change.factor
            rates[change.link] = max(rates[change.link], most)
        return rates

    @cached_property
    def members(self) -> IntArray:
        """The ranks of each group that carries it out, a row each, evenly spaced: all, in one."""
        return np.arange(len(self.ends))[None]

    @property
    def joins_all(self) -> bool:
        """Whether no rank can leave before all ranks of its group have entered."""
        return True

    @property
    def ends(self) -> IntArray:
        """The rank of ``network`` that each rank of the collective is."""
        return np.arange(self.network.ranks)

    @property
    def plays(self) -> bool:
        """Whether it knows its messages, so that others may share links with each of them."""
        return False

    def play(self, shared: SharedNetwork, nbytes: int, leave: Leave) -> Play:
        """Carry it out message by message on a network that others use, too.

        ``leave`` is called with ranks as they finish. Only for a model that `plays`.
        """
        raise NotImplementedError

    def crossings(self) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """The links of its messages, (messages, hops), their senders and receivers: each pattern.

        None of a model that does not know them.
        """
        return iter(())

    def of_size(self, nbytes: int) -> CollectiveModel:
        """The model that times a collective of ``nbytes``, where that depends on the size."""
        return self

    def of_group(self, ranks: IntArray) -> CollectiveModel:
        """The model of a group alone, one of the rows of `members`."""
        assert len(ranks) == len(self.ends), "a model of several groups must know one"
        return self

    def traffic(self, nbytes: int) -> Traffic:
        """Bytes that each rank sends and receives."""
        return traffic(self.schedule, nbytes, self.itemsize)

    def algorithm_for(self, nbytes: int) -> str:
        """The name of the algorithm that carries out a collective of this size."""
        return self.schedule.algorithm


def _short(begin: float, end: float, busiest: float) -> float:
    """What the busiest link, at work from ``begin``, needs beyond ``end`` (s); 0 for rounding."""
    short = begin + busiest - end
    return short if short > _ROUNDING * busiest else 0.0


class LeavingTogether(CollectiveModel):
    """All ranks that meet leave together, so long after the last of them has entered.

    A kind says how long, what carries it out, and what that puts on the links.
    """

    @abstractmethod
    def _time(self, nbytes: int) -> tuple[float, str]:
        """Seconds from the last entry on, and the name of what carries it out."""

    @abstractmethod
    def _loads(self, nbytes: int, name: str) -> FloatArray:
        """Bytes on each capacity, by what carries it out (``name``)."""

    def end_together(self, begin: float, nbytes: int) -> float:
        """So long after they entered, and no earlier than its links allow."""
        known: dict[int, tuple[float, float]] = self.__dict__.setdefault("_together", {})
        if nbytes not in known:
            seconds, name = self._time(nbytes)
            busiest = self._busiest_seconds(self._loads(nbytes, name)) - self.saved
            known[nbytes] = seconds, busiest
        seconds, busiest = known[nbytes]
        end = begin + seconds
        return end + _short(begin, end, busiest)

    def algorithm_for(self, nbytes: int) -> str:
        """What carries it out at this size."""
        return self._time(nbytes)[1]

    def loads(self, nbytes: int) -> FloatArray:
        """Bytes on each capacity, by what carries it out at this size."""
        return self._loads(nbytes, self.algorithm_for(nbytes))

    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        seconds, name = self._time(nbytes)
        ends = np.empty(len(starts))
        if len(self.members) == 1:  # all of them, in whichever order
            ends.fill(starts.max() + seconds)
        else:
            last = starts[self.members].max(axis=1, keepdims=True)
            ends[self.members] = last + seconds
        return Outcome(ends, self._loads(nbytes, name))


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

    @cached_property
    def _most_rates(self) -> FloatArray:
        """The most that each link ever carries (B/s): some may become faster than they are."""
        rates = self.network.capacities.copy()
        for change in self.conditions.changes:
            most = self.network.capacities[change.link] * change.factor
            rates[change.link] = max(rates[change.link], most)
        return rates

    @cached_property
    def members(self) -> IntArray:
        """The schedule's groups."""
        members = self.schedule.members
        return np.arange(self.schedule.ranks)[None] if members is None else members

    @property
    def joins_all(self) -> bool:
        """As its operation does; what is none of them may let ranks leave early."""
        operation = self.schedule.operation
        return operation in OPERATIONS and OPERATIONS[operation].joins_all

    @property
    def plays(self) -> bool:
        """It does."""
        return True

    def play(self, shared: SharedNetwork, nbytes: int, leave: Leave) -> Play:
        """The transfers of the schedule."""
        from dpsim.network.flows import CollectiveRun

        check_laid_out(self.schedule, self.network)
        ranks = self.ends
        return CollectiveRun(shared, self.schedule, ranks, nbytes, self.costs, self.itemsize, leave)

    def crossings(self) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Those of the schedule."""
        check_laid_out(self.schedule, self.network)
        for phase in self.schedule.phases:
            for number in range(1 if phase.steady else phase.rounds):
                check()
                transfers = phase.round(number)
                routes = self.network.routes(transfers.source, transfers.destination)
                yield routes.links, transfers.source, transfers.destination

    def of_group(self, ranks: IntArray) -> Self:
        """The same on what one group does of the schedule."""
        if self.schedule.members is None:
            return self
        from dpsim.collectives import of_one_group
        from dpsim.topology import SubNetwork

        schedule, network = of_one_group(self.schedule, ranks), SubNetwork(self.network, ranks)
        return type(self)(schedule, network, self.costs, itemsize=self.itemsize)
