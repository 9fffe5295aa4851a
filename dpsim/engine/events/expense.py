"""Rough estimate of how long an event-by-event run takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dpsim.engine.job import Job

_A_MOMENT = 60.0  # CPU seconds
# CPU seconds, measured on one core at 2.5 GHz.
_PER_WORKER = 30e-6  # per collective: computing up to it, entering, leaving
_PER_MESSAGE = 140e-6
_PER_GROUP = 2e-3  # for a bundle among others, and for making a group's model
_PER_PLACE = 100e-6  # per rank that leaves at its own time


def takes_a_moment(job: Job) -> bool:
    """Return whether an event-by-event run of ``job`` takes at most about a minute of CPU time.

    With background traffic both engines simulate messages, one collective at a time on the vector
    path, so they take equally long.
    """
    return job.setting.disturbed or expected_seconds(job) <= _A_MOMENT


def expected_seconds(job: Job) -> float:
    """Return about how many CPU seconds an event-by-event run of ``job`` takes."""
    return _of_messages(job) if job.by_messages else _of_bundles(job)


def _stages(job: Job) -> Iterator[tuple[float, str, int]]:
    """Yield how often each collective occurs in all steps, its name and its size (bytes)."""
    stop = job.counted.stop
    cycle = range(min(stop, job.scenario.strategy.sync.first_own_step + job.cycle))
    for kind, count in Counter(map(job.exchange, cycle)).items():
        for call in job.calls_of[kind]:
            for name, nbytes in call.stages:
                yield count * stop / len(cycle), name, nbytes


def _of_messages(job: Job) -> float:
    """Return the seconds that the messages of all steps take, by the models' schedules."""
    messages = 0.0
    for count, name, nbytes in _stages(job):
        schedule = getattr(job.collective(name).of_size(nbytes), "schedule", None)
        messages += count * (job.workers if schedule is None else schedule.transfers)
    return messages * _PER_MESSAGE


def _of_bundles(job: Job) -> float:
    """Return the seconds that the bundles of all steps take."""
    making = sum(len(model.members) for turns in job.collectives.values() for model in turns)
    seconds = _PER_GROUP * making
    for count, name, _ in _stages(job):
        groups = len(job.collective(name).members)
        seconds += count * (groups * _PER_GROUP + job.workers * (_PER_WORKER + _PER_PLACE))
    return seconds
