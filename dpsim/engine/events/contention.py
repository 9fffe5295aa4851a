"""The collectives that each communicator of a job uses, and the links that several share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.engine.conditions import conditions_on
from dpsim.engine.job import Job
from dpsim.network import CollectiveModel, Conditions
from dpsim.strategy.aggregation import Group

_NOBODY = -1
_SEVERAL = -2
_SAME = 1e-9  # relative


class Used(NamedTuple):
    """A collective that steps use, in one of its turns, with the most bytes that it carries."""

    group: Group
    model: CollectiveModel
    nbytes: int


def used_collectives(job: Job) -> Iterator[Used]:
    """Yield the collectives that the calls of all steps use, by communicator."""
    most: dict[tuple[Group, str], int] = {}
    for calls in job.calls_of.values():
        for call in calls:
            for name, nbytes in call.stages:
                key = call.group, name
                most[key] = max(nbytes, most.get(key, 0))
    for (group, name), nbytes in most.items():
        for model in job.collectives[name]:
            yield Used(group, model.of_size(nbytes), nbytes)


def communicators(job: Job) -> tuple[Group, ...]:
    """Return the communicators that the job's calls use; each has a stream of its own."""
    return tuple(dict.fromkeys(call.group for calls in job.calls_of.values() for call in calls))


def ends_of(job: Job) -> IntArray:
    """Return each worker's rank in ``job.network``."""
    models = (model for turns in job.collectives.values() for model in turns)
    there = (model.ends for model in models if model.network is job.network)
    return next(there, job.setting.workers)


def conditions_of(job: Job) -> Conditions:
    """Return the background traffic and the link changes on ``job.network``."""
    return conditions_on(job.scenario.disturbance, job.network, ends_of(job))


def contended_links(job: Job) -> IntArray:
    """Return the links where an operation may meet another group, other traffic or a change."""
    # The group that loads each link: its number, `_NOBODY` or `_SEVERAL`.
    users = np.full(len(job.network.capacities), _NOBODY)
    numbers: dict[tuple[Group, bytes], int] = {}  # of partitions of the workers

    def note(links: IntArray, groups: IntArray | int) -> None:
        """Record that ``groups[i]`` loads ``links[i]``."""
        before = users.copy()
        users[links] = groups  # if several load one link, the last one wins
        several = links[users[links] != groups]
        met = (before != _NOBODY) & (before != users)
        met[several] = True
        users[met] = _SEVERAL

    for communicator, model, nbytes in used_collectives(job):
        if model.network is not job.network:
            continue
        groups = model.members
        # Groups of different partitions of the workers count as different even where they overlap,
        # and so do groups of different communicators, because they do not wait for one another.
        way = communicator, groups.tobytes()
        # No partition has more groups than workers, so the numbers of two never coincide.
        first = job.workers * numbers.setdefault(way, len(numbers))
        if len(groups) == 1:
            loads = model.finish(np.zeros(job.workers), max(nbytes, 1)).loads
            note(np.flatnonzero(loads), first)
            continue
        group_of = np.empty(job.workers, dtype=np.int64)
        group_of[groups] = first + np.arange(len(groups))[:, None]
        for links, source, _ in model.crossings():
            for hop in links.T:
                there = hop >= 0
                note(hop[there], group_of[source[there]])
    met = users == _SEVERAL
    met[_disturbed(job)] = True
    return np.flatnonzero(met)


def overload_links(job: Job) -> bool:
    """Return whether concurrent communicators would together exceed the capacity of a link."""
    shares: dict[Group, FloatArray] = {}
    for group, model, nbytes in used_collectives(job):
        if model.network is not job.network:
            continue
        outcome = model.finish(np.zeros(job.workers), max(nbytes, 1))
        seconds = float(outcome.finishes.max())
        if seconds > 0:  # groups of one send nothing
            share = outcome.loads / (job.network.capacities * seconds)
            shares[group] = np.maximum(share, shares.get(group, 0.0))
    return float(sum(shares.values(), start=np.zeros(1)).max()) > 1 + _SAME


def _disturbed(job: Job) -> IntArray:
    """Return the links with background traffic and those that change."""
    conditions = conditions_of(job)
    found = [np.array([change.link for change in conditions.changes], dtype=np.int64)]
    for flow in conditions.background:
        ends = np.array([flow.source]), np.array([flow.destination])
        route = job.network.routes(*ends).links
        found.append(route[route >= 0])
    return np.unique(np.concatenate(found))
