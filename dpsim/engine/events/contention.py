"""The collectives that each communicator of a job uses, and the links that several share.

The vector engine times one collective at a time on links of its own; these functions decide when
that is exact.
"""

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
_MOST = np.iinfo(np.int64).max


class UsedCollective(NamedTuple):
    """A collective that steps use, in one of its turns, with its largest size in bytes."""

    group: Group
    model: CollectiveModel
    nbytes: int


def used_collectives(job: Job) -> Iterator[UsedCollective]:
    """Yield the collectives that the calls of all steps use, by communicator."""
    most: dict[tuple[Group, str], int] = {}
    for calls in job.calls_of.values():
        for call in calls:
            for name, nbytes in call.stages:
                key = call.group, name
                most[key] = max(nbytes, most.get(key, 0))
    for (group, name), nbytes in most.items():
        for model in job.collectives[name]:
            yield UsedCollective(group, model.of_size(nbytes), nbytes)


def communicators(job: Job) -> tuple[Group, ...]:
    """Return the communicators that the job's calls use; each has a stream of its own."""
    return tuple(dict.fromkeys(call.group for calls in job.calls_of.values() for call in calls))


def conditions_of(job: Job) -> Conditions:
    """Return the background traffic and the link changes on ``job.network``."""
    models = (model for turns in job.collectives.values() for model in turns)
    # Each worker's rank in the network.
    ends = (model.ends for model in models if model.network is job.network)
    workers = next(ends, job.setting.workers)
    return conditions_on(job.scenario.disturbance, job.network, workers)


def contended_links(job: Job) -> IntArray:
    """Return the links that an operation may share with other traffic or groups, or that change."""
    # The group that loads each link: its number, `_NOBODY` or `_SEVERAL`.
    users = np.full(len(job.network.capacities), _NOBODY)
    numbers: dict[tuple[Group, bytes], int] = {}  # of partitions of the workers

    def add_users(links: IntArray, groups: IntArray | int) -> None:
        """Record that ``groups[i]`` loads ``links[i]``."""
        before = users.copy()
        users[links] = groups  # if several load one link, the last one wins
        several = links[users[links] != groups]
        shared = (before != _NOBODY) & (before != users)
        shared[several] = True
        users[shared] = _SEVERAL

    for communicator, model, nbytes in used_collectives(job):
        if model.network is not job.network:
            continue
        groups = model.members
        # Groups of different partitions of the workers count as different even if they overlap, and
        # so do groups of different communicators, because they do not wait for one another.
        partition = communicator, groups.tobytes()
        # A partition has at most as many groups as workers, so these numbers never coincide.
        first = job.workers * numbers.setdefault(partition, len(numbers))
        if len(groups) == 1:
            loads = model.finish(np.zeros(job.workers), max(nbytes, 1)).loads
            add_users(np.flatnonzero(loads), first)
            continue
        group_of = np.empty(job.workers, dtype=np.int64)
        group_of[groups] = first + np.arange(len(groups))[:, None]
        for links, source, _ in model.crossings():
            for hop in links.T:
                exists = hop >= 0
                add_users(hop[exists], group_of[source[exists]])
    shared = users == _SEVERAL
    shared[_disturbed(job)] = True
    return np.flatnonzero(shared)


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


def inexact_because(job: Job) -> str | None:
    """Return what the vector engine neglects in ``job``, or None if it is exact.

    Operations that all workers run in the same order never overlap if no worker leaves before all
    have entered. Simulated message by message they may overlap: the last messages of one and the
    first of the next share a link, unless each link has a single sender or receiver.
    """
    conditions = conditions_of(job)
    if conditions and not job.by_messages:
        return "other traffic, or links that change, slow down bundles of messages"
    if conditions.background:
        return "other traffic shares links with operations that follow one another closely"
    if any(change.factor == 0 for change in conditions.changes):
        return "a cut link sends messages over links that other messages use"
    if job.by_messages:
        return _by_messages(job)
    if len(contended_links(job)):
        return "groups of workers share links, each at its own time"
    return None


def _by_messages(job: Job) -> str | None:
    """Return why messages of two operations may share a link, or None."""
    capacities = len(job.network.capacities)
    first = np.full((2, capacities + 1), _MOST)  # the last column is for -1, no link
    last = np.full((2, capacities + 1), -1)
    if len(communicators(job)) > 1:
        return "messages of groups may meet those between groups"
    for used in used_collectives(job):
        if not _note_ends(used.model, first, last):
            return "copies and pushes of different workers share links, each at its own time"
    # Rows: senders and receivers. With a single sender or receiver, messages never share a link.
    several = ((first < last)[:, :-1]).all(axis=0)
    if several.any():
        link = job.network.link_name(int(np.flatnonzero(several)[0]))
        return f"messages of one operation may meet those of the next ({link})"
    return None


def _note_ends(model: CollectiveModel, first: IntArray, last: IntArray) -> int:
    """Note the first and the last rank that sends over each link, and that receives over it.

    Returns the number of message patterns of the model.
    """
    patterns = 0
    for links, *ends in model.crossings():
        patterns += 1
        for side, ranks in enumerate(ends):
            for hop in links.T:
                np.minimum.at(first[side], hop, ranks)
                np.maximum.at(last[side], hop, ranks)
    return patterns
