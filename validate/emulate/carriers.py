"""Carriers of a step's collectives on real ranks: schedules, libraries, hosts' CPUs, servers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dpsim.collectives import Schedule, algorithm
from dpsim.engine import Job, StagedCall
from dpsim.network import CollectiveModel, HostPathModel, schedule_on
from dpsim.network.libraries import GlooModel
from validate.collectives import Executor, LibraryCollective
from validate.emulate.clock import now, sleep_until
from validate.emulate.push_pull import Client
from validate.ranks.processes import Place, World

_FLOAT = 4
_BESIDE = 500  # the first tag of collectives that run beside others of the same ranks
_SIDE_BY_SIDE = ("outer", "replicas")  # groups whose collectives do


class Carrier(ABC):
    """Carries out one collective of one size repeatedly, for one rank."""

    @abstractmethod
    def carry(self) -> None:
        """Take part, from this rank's start to its end."""


class Scheduled(Carrier):
    """A schedule's transfers by the executor, on a vector of zeros of the right size."""

    def __init__(
        self, schedule: Schedule, nbytes: int, world: World, *, beside: bool = False
    ) -> None:
        # A rank's result of gossip depends on the graph; the executor promises only common results.
        # As a barrier the same transfers take place, and nothing is promised.
        if schedule.operation == "gossip":
            schedule = replace(schedule, operation="barrier")
        tag = _BESIDE if beside else 0
        elements = max(-(-nbytes // _FLOAT), 1)
        self._executor = Executor(schedule, elements, world, tag=tag)
        self._vector, _ = self._executor.buffers(in_place=True)
        # Zeros can be summed in place repeatedly; other numbers would overflow.
        self._vector.zero_()

    def carry(self) -> None:
        self._executor.run(self._vector, self._vector)


class ByLibrary(Carrier):
    """The backend's own collective, on a vector of zeros of the right size."""

    def __init__(self, operation: str, nbytes: int, world: World) -> None:
        self._collective = LibraryCollective(operation, max(-(-nbytes // _FLOAT), 1), world)
        self._vector, _ = self._collective.buffers(in_place=True)
        self._vector.zero_()

    def carry(self) -> None:
        self._collective.run(self._vector, self._vector)


class ThroughHost(Carrier):
    """A host's CPU takes the vector of its one GPU, then CPUs all-reduce by a ring.

    The summing is a timed wait.
    """

    def __init__(self, model: HostPathModel, nbytes: int, world: World) -> None:
        self._seconds = nbytes / model.sum_rate
        ring = algorithm("ring").schedule(world.size)
        self._between = Scheduled(ring, nbytes, world) if world.size > 1 else None

    def carry(self) -> None:
        """Sum, then all-reduce between hosts."""
        sleep_until(now() + self._seconds)
        if self._between is not None:
            self._between.carry()


class PushPull(Carrier):
    """A push to the servers, and the pull once all workers' shares are applied."""

    def __init__(self, client: Client, push: int, pull: int) -> None:
        self._client, self._push, self._pull = client, push, pull

    def carry(self) -> None:
        """Post receives for the answer, send a share to each server, wait."""
        self._client.expect(self._pull)
        self._client.push(self._push)
        self._client.pull()


class Carriers:
    """The carriers of all calls of a job for one worker of ``world``, made in advance."""

    def __init__(self, job: Job, world: World, client: Client | None) -> None:
        self._job = job
        self._client = client
        self._world = replace(world, place=Place(world.rank, job.workers))
        self._made: dict[tuple[str, int, int, bool], Carrier] = {}
        # A collective may differ from step to step, as a graph's turns do: the steps of its longest
        # cycle make every carrier, so that none is made during the measured time.
        for calls in job.calls_of.values():
            for call in calls:
                turns = max(len(job.collectives[name]) for name, _ in call.stages)
                for turn in range(turns):
                    self.of(call, turn)

    def of(self, call: StagedCall, step: int) -> list[Carrier]:
        """Return the carriers of ``call`` in step ``step``, one after the other."""
        stages = dict(call.stages)
        if "push" in stages:
            return [self._kept(("push", stages["push"], stages["pull"], False), self._push_pull)]
        carriers = []
        for name, nbytes in call.stages:
            turn = step % len(self._job.collectives[name])
            key = name, nbytes, turn, call.group in _SIDE_BY_SIDE
            carriers.append(self._kept(key, self._collective))
        return carriers

    def warm_up(self) -> None:
        """Carry out every collective once; all workers in the same order."""
        # The first messages between two ranks open their connection. Pushes are left out, as
        # servers count them.
        for carrier in self._made.values():
            if not isinstance(carrier, PushPull):
                carrier.carry()

    def _kept(self, key: tuple[str, int, int, bool], make: Callable[..., Carrier]) -> Carrier:
        if key not in self._made:
            self._made[key] = make(*key)
        return self._made[key]

    def _push_pull(self, _: str, push: int, pull: int, __: bool) -> Carrier:
        assert self._client
        return PushPull(self._client, push, pull)

    def _collective(self, name: str, nbytes: int, turn: int, beside: bool) -> Carrier:
        model = self._job.collective(name, turn)
        if isinstance(model, HostPathModel):
            return ThroughHost(model, nbytes, self._world)
        if isinstance(model, GlooModel):
            return ByLibrary(model.operation, nbytes, self._world)
        return Scheduled(self._schedule(model, nbytes), nbytes, self._world, beside=beside)

    def _schedule(self, model: CollectiveModel, nbytes: int) -> Schedule:
        """Return a model's own schedule, or that of the algorithm it chooses for the size."""
        schedule: Any = getattr(model.of_size(nbytes), "schedule", None)
        return schedule or schedule_on(self._job.cluster, algorithm(model.algorithm_for(nbytes)))
