"""The interface of collective models: when each rank ends, and what each link carried."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self
from weakref import ref

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.budget import check, check_memory
from dpsim.collectives import OPERATIONS, Schedule, Traffic, traffic
from dpsim.network.conditions import NO_CONDITIONS, Conditions
from dpsim.network.outcome import MessageCosts, OnRanks, Outcome
from dpsim.topology import Network

if TYPE_CHECKING:
    from dpsim.base.uncertainty import ModelError
    from dpsim.network.flows import SharedNetwork

_ROUNDING = 1e-12  # relative: smaller violations of the bound are ignored
_MOST_KEPT = 1000  # cached times of the busiest link
_BYTES_A_TRANSFER, _BYTES_A_HOP = 120.0, 85.0


def transfer_bytes(network: Network) -> float:
    """Return an estimate of the bytes of memory per transfer when a round is laid out.

    Measured at the peak, which holds its ends, chunks and times, and several copies of its route.
    """
    return _BYTES_A_TRANSFER + _BYTES_A_HOP * most_hops(network)


def most_hops(network: Network) -> int:
    """Return an estimate of the number of links of the longest route."""
    # The first and the last rank are usually as far apart as any two.
    ends = np.array([0]), np.array([network.ranks - 1])
    return network.routes(*ends).links.shape[1] if network.ranks > 1 else 1


def check_laid_out(schedule: Schedule, network: Network) -> None:
    """Raise FailedError if a round of ``schedule``, laid out in full, does not fit in memory."""
    check_round(schedule, network, transfer_bytes(network) * schedule.most_at_once)


def check_round(schedule: Schedule, network: Network, nbytes: float) -> None:
    """Raise FailedError if a round of ``schedule`` that needs ``nbytes`` does not fit in memory."""
    check_memory(nbytes, f"a round of {schedule.algorithm} on {network.ranks:,} ranks")


class CollectiveModel(ABC):
    """The time of one collective operation on one network.

    ``finish(starts, nbytes)`` takes the time at which each rank enters (s, a vector over ranks) and
    the bytes of one rank's vector, and returns when each rank leaves and what each link carried. It
    keeps no visible state between calls. ``network`` has the capacities. By default its traffic and
    algorithm come from its ``schedule``; a model without one overrides them.
    """

    saved: float = 0.0
    """Seconds at full rate that a link's token bucket may hold at the start."""
    schedule: Schedule
    network: Network
    conditions: Conditions = NO_CONDITIONS
    itemsize: int = 4
    # The comparison with measurements, for a model without residuals; "" for ideal models.
    compared: ClassVar[str] = ""

    def finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """Return when each rank that enters at ``starts`` finishes, not before its links allow."""
        return self._bounded_by_links(self._finish(starts, nbytes), starts)

    def finish_after(self, starts: FloatArray, nbytes: int, refilled_at: float) -> Outcome:
        """Return the same if token buckets on the links are full again only at ``refilled_at`` (s).

        Most models have none.
        """
        return self._bounded_by_links(self._finish_after(starts, nbytes, refilled_at), starts)

    def seconds_from_common_start(self, nbytes: int) -> float:
        """Return the seconds until the last rank has finished, if all enter at once."""
        starts = np.zeros(len(self.ends))
        return float(self.finish(starts, nbytes).finishes.max())

    def end_from_common_start(self, begin: float, nbytes: int) -> float | None:
        """Return when all ranks leave if all enter at ``begin`` (s); None if it is not known."""
        return None

    def loads(self, nbytes: int) -> FloatArray:
        """Return the bytes on each capacity during the operation, if all ranks enter together."""
        return self.finish(np.zeros(len(self.ends)), nbytes).loads

    @abstractmethod
    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """Return when each rank that enters at ``starts`` finishes, without the links' bound."""

    def _finish_after(self, starts: FloatArray, nbytes: int, refilled_at: float) -> Outcome:
        return self._finish(starts, nbytes)

    def model_error(self, nbytes: int) -> ModelError:
        """Return the error of its time for ``nbytes``.

        By default the error of ideal transfers; models of libraries have their own residuals.
        """
        from dpsim.network.residuals import described, ideal_error

        # On a bare switch, each rank is a node of its own.
        nodes = getattr(self.network, "nodes", self.network.ranks)
        return ideal_error(nodes, nbytes, described(self.network), self.compared)

    @property
    def nearest_machines(self) -> tuple[str, ...] | None:
        """Measured machines that correct its times; None if the model has no such correction."""
        return None

    def sustained(self) -> float:
        """Return the usable share of its busiest link's rate for many bytes; 1 if ideal."""
        return 1.0

    def _bounded_by_links(self, outcome: Outcome, starts: FloatArray) -> Outcome:
        """Return ``outcome``, delayed if the busiest link needs more time for its bytes.

        No link can carry more than its rate times the time from the first start to the last finish.
        If a model violates this (rounds that overlap on a link, constants fitted on other links),
        all ranks finish later by the difference.
        """
        # Bytes from a full token bucket pass in addition to the rate.
        busiest = self._busiest_seconds(outcome.loads) - self.saved
        # Usually the first rank alone shows that there was enough time.
        if starts[0] + busiest - outcome.finishes[0] <= _ROUNDING * busiest:
            return outcome
        shortfall = _shortfall(float(starts.min()), float(outcome.finishes.max()), busiest)
        return replace(outcome, finishes=outcome.finishes + shortfall) if shortfall else outcome

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, without this process's array identities."""
        return {name: value for name, value in vars(self).items() if name != "_busiest"}

    def _busiest_seconds(self, loads: FloatArray) -> float:
        """Return the busiest link's time for its bytes (s), cached for recent loads."""
        known: dict[int, tuple[ref[FloatArray], float]] = self.__dict__.setdefault("_busiest", {})
        # Cached, because steps repeat a few collectives thousands of times on many links.
        found = known.get(id(loads))
        # A weak reference keeps nothing alive, so another array may reuse the id.
        if found is None or found[0]() is not loads:
            if len(known) == _MOST_KEPT:
                known.clear()
            found = ref(loads), float((loads / self._most_rates).max(initial=0.0))
            known[id(loads)] = found
        return found[1]

    @cached_property
    def _most_rates(self) -> FloatArray:
        """The highest rate that each link ever has (B/s), since link changes may raise it."""
        rates = self.network.capacities.copy()
        for change in self.conditions.changes:
            most = self.network.capacities[change.link] * change.factor
            rates[change.link] = max(rates[change.link], most)
        return rates

    @cached_property
    def members(self) -> IntArray:
        """The ranks of each group that runs it, a row each, evenly spaced; by default one group."""
        return np.arange(len(self.ends))[None]

    @property
    def joins_all(self) -> bool:
        """Whether no rank can leave before all ranks of its group have entered."""
        return True

    @property
    def ends(self) -> IntArray:
        """The rank in ``network`` of each rank of the collective."""
        return np.arange(self.network.ranks)

    @property
    def has_messages(self) -> bool:
        """Whether it can run message by message, and so share links with other traffic."""
        return False

    def run_by_messages(self, shared: SharedNetwork, nbytes: int, leave: OnRanks) -> OnRanks:
        """Run it message by message on a shared network; return a function that lets ranks enter.

        ``leave`` is called with ranks as they finish. Only for a model that `has_messages`.
        """
        raise NotImplementedError

    def crossings(self) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Yield for each pattern the messages' links, (messages, hops), senders and receivers.

        Empty for a model that does not know them.
        """
        return iter(())

    def of_size(self, nbytes: int) -> CollectiveModel:
        """Return the model that times a collective of ``nbytes``."""
        return self

    def of_group(self, ranks: IntArray) -> CollectiveModel:
        """Return the model of a single group, one of the rows of `members`."""
        assert len(ranks) == len(self.ends), "a model of several groups must know one"
        return self

    def traffic(self, nbytes: int) -> Traffic:
        """Return the bytes that each rank sends and receives."""
        return traffic(self.schedule, nbytes, self.itemsize)

    def algorithm_for(self, nbytes: int) -> str:
        """Return the name of the algorithm for a collective of this size."""
        return self.schedule.algorithm


def _shortfall(begin: float, end: float, busiest: float) -> float:
    """Return the time that the busiest link still needs after ``end`` (s); 0 if only rounding."""
    shortfall = begin + busiest - end
    return shortfall if shortfall > _ROUNDING * busiest else 0.0


class CommonFinish(CollectiveModel):
    """A model in which all ranks finish together, a fixed time after the last one has entered.

    Subclasses return the time, the algorithm, and its link loads.
    """

    @abstractmethod
    def _time(self, nbytes: int) -> tuple[float, str]:
        """Return the seconds from the last entry on, and the name of the algorithm."""

    @abstractmethod
    def _loads(self, nbytes: int, name: str) -> FloatArray:
        """Return the bytes on each capacity with the algorithm ``name``."""

    def end_from_common_start(self, begin: float, nbytes: int) -> float:
        known: dict[int, tuple[float, float]] = self.__dict__.setdefault("_together", {})
        if nbytes not in known:
            seconds, name = self._time(nbytes)
            busiest = self._busiest_seconds(self._loads(nbytes, name)) - self.saved
            known[nbytes] = seconds, busiest
        seconds, busiest = known[nbytes]
        end = begin + seconds
        return end + _shortfall(begin, end, busiest)

    def algorithm_for(self, nbytes: int) -> str:
        return self._time(nbytes)[1]

    def loads(self, nbytes: int) -> FloatArray:
        return self._loads(nbytes, self.algorithm_for(nbytes))

    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        seconds, name = self._time(nbytes)
        ends = np.empty(len(starts))
        if len(self.members) == 1:  # all ranks, in any order
            ends.fill(starts.max() + seconds)
        else:
            last = starts[self.members].max(axis=1, keepdims=True)
            ends[self.members] = last + seconds
        return Outcome(ends, self._loads(nbytes, name))


class ScheduleModel(CollectiveModel):
    """A schedule on a network, with vectors of elements of ``itemsize`` bytes."""

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
    def members(self) -> IntArray:
        members = self.schedule.members
        return np.arange(self.schedule.ranks)[None] if members is None else members

    @property
    def joins_all(self) -> bool:
        """Whether its operation joins all ranks; an unknown operation may let ranks leave early."""
        operation = self.schedule.operation
        return operation in OPERATIONS and OPERATIONS[operation].joins_all

    @property
    def has_messages(self) -> bool:
        return True

    def run_by_messages(self, shared: SharedNetwork, nbytes: int, leave: OnRanks) -> OnRanks:
        from dpsim.network.flows import CollectiveRun

        check_laid_out(self.schedule, self.network)
        ranks, costs = self.ends, self.costs
        run = CollectiveRun(shared, self.schedule, ranks, nbytes, costs, self.itemsize, leave)
        return run.enter

    def crossings(self) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        check_laid_out(self.schedule, self.network)
        for phase in self.schedule.phases:
            for number in range(1 if phase.steady else phase.rounds):
                check()
                transfers = phase.round(number)
                routes = self.network.routes(transfers.source, transfers.destination)
                yield routes.links, transfers.source, transfers.destination

    def of_group(self, ranks: IntArray) -> Self:
        """Return the model of one group's part of the schedule."""
        schedule = self.schedule.of_each
        if schedule is None:
            return self
        from dpsim.topology import SubNetwork

        network = SubNetwork(self.network, ranks)
        return type(self)(schedule, network, self.costs, itemsize=self.itemsize)
