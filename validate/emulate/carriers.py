"""Carriers of a step's collectives on real ranks: schedules, libraries, hosts' CPUs, servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from dpsim.collectives import Schedule, algorithm
from dpsim.engine import Job, StagedCall
from dpsim.network import CollectiveModel, HostPathModel, schedule_on
from dpsim.network.libraries import GlooModel
from validate.collectives import Collective, Executor, LibraryCollective
from validate.emulate.clock import now, sleep_until
from validate.emulate.push_pull import Client
from validate.ranks.processes import Place, World

_FLOAT_BYTES = 4
_BESIDE_TAG = 500  # the first tag of collectives that run beside others of the same ranks
_SIDE_BY_SIDE = ("outer", "replicas")  # groups whose collectives do

Carry = Callable[[], None]
"""One rank's part in one collective of one size, from its start to its end; called repeatedly."""


def by_schedule(schedule: Schedule, nbytes: int, world: World, *, beside: bool = False) -> Carry:
    """Return a schedule's transfers by the executor, on a vector of the right size."""
    # A rank's result of gossip depends on the graph; the executor promises only common results. As
    # a barrier the same transfers take place, and nothing is promised.
    if schedule.operation == "gossip":
        schedule = replace(schedule, operation="barrier")
    tag = _BESIDE_TAG if beside else 0
    return _on_zeros(Executor(schedule, _elements(nbytes), world, tag=tag))


def by_library(operation: str, nbytes: int, world: World) -> Carry:
    """Return the backend's own collective, on a vector of the right size."""
    return _on_zeros(LibraryCollective(operation, _elements(nbytes), world))


def _elements(nbytes: int) -> int:
    return max(-(-nbytes // _FLOAT_BYTES), 1)


def _on_zeros(collective: Collective) -> Carry:
    vector, _ = collective.buffers(in_place=True)
    # Zeros can be summed in place repeatedly; other numbers would overflow.
    vector.zero_()
    return partial(collective.run, vector, vector)


def through_host(model: HostPathModel, nbytes: int, world: World) -> Carry:
    """Return a host CPU's part: it takes the vector of its one GPU, then CPUs all-reduce.

    They do so by a ring; the summing is a timed wait.
    """
    seconds = nbytes / model.sum_rate
    ring = algorithm("ring").schedule(world.size)
    between = by_schedule(ring, nbytes, world) if world.size > 1 else None

    def carry() -> None:
        sleep_until(now() + seconds)
        if between is not None:
            between()

    return carry


class Carriers:
    """The carriers of all calls of a job for one worker of ``world``, made in advance."""

    def __init__(self, job: Job, world: World, client: Client | None) -> None:
        self._job = job
        self._client = client
        self._world = replace(world, place=Place(world.rank, job.workers))
        self._made: dict[tuple[str, int, int, bool], Carry] = {}
        # A collective may differ from step to step, as a graph's turns do: the steps of its longest
        # cycle make every carrier, so that none is made during the measured time.
        for calls in job.calls_of.values():
            for call in calls:
                turns = max(len(job.collectives[name]) for name, _ in call.stages)
                for turn in range(turns):
                    self.of(call, turn)

    def of(self, call: StagedCall, step: int) -> list[Carry]:
        """Return the carriers of ``call`` in step ``step``, one after the other."""
        stages = dict(call.stages)
        if "push" in stages:
            assert self._client
            return [partial(self._client.push_and_pull, stages["push"], stages["pull"])]
        carriers = []
        for name, nbytes in call.stages:
            turn = step % len(self._job.collectives[name])
            key = name, nbytes, turn, call.group in _SIDE_BY_SIDE
            if key not in self._made:
                self._made[key] = self._collective(*key)
            carriers.append(self._made[key])
        return carriers

    def warm_up(self) -> None:
        """Carry out every collective once; all workers in the same order."""
        # The first messages between two ranks open their connection. Pushes are left out, as
        # servers count them.
        for carry in self._made.values():
            carry()

    def _collective(self, name: str, nbytes: int, turn: int, beside: bool) -> Carry:
        model = self._job.collective(name, turn)
        if isinstance(model, HostPathModel):
            return through_host(model, nbytes, self._world)
        if isinstance(model, GlooModel):
            return by_library(model.operation, nbytes, self._world)
        return by_schedule(self._schedule(model, nbytes), nbytes, self._world, beside=beside)

    def _schedule(self, model: CollectiveModel, nbytes: int) -> Schedule:
        """Return a model's own schedule, or that of the algorithm it chooses for the size."""
        schedule: Any = getattr(model.of_size(nbytes), "schedule", None)
        return schedule or schedule_on(self._job.cluster, algorithm(model.algorithm_for(nbytes)))
