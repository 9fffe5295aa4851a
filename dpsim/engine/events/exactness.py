"""The limits of the vector path, which times one collective at a time on links of its own."""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import IntArray
from dpsim.engine.events.contention import (
    communicators,
    conditions_of,
    contended_links,
    used_collectives,
)
from dpsim.engine.job import Job
from dpsim.network import CollectiveModel

_MOST = np.iinfo(np.int64).max


def inexact_because(job: Job) -> str | None:
    """Return what the vector path leaves out of ``job``, or None where it is exact.

    Operations that all workers run in the same order never overlap if no worker leaves before all
    have entered. Simulated by messages they may: the last messages of one and the first of the next
    share a link, unless a rank at one end of each link has finished with the first operation.
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
    first = np.full((2, capacities + 1), _MOST)  # the last is for -1, no link
    last = np.full((2, capacities + 1), -1)
    if len(communicators(job)) > 1:
        return "messages of groups may meet those between groups"
    for used in used_collectives(job):
        if not _note_ends(used.model, first, last):
            return "copies and pushes of different workers share links, each at its own time"
    # (2, links), senders and receivers: where either are one rank alone, messages cannot meet.
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
        for way, ranks in enumerate(ends):
            for hop in links.T:
                np.minimum.at(first[way], hop, ranks)
                np.maximum.at(last[way], hop, ranks)
    return patterns
