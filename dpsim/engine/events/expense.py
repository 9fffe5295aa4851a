"""Rough estimate of how long an event-by-event run takes, for the choice of the engine."""

from __future__ import annotations

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
    if job.setting.disturbed:
        return True
    return (_of_messages(job) if job.by_messages else _of_bundles(job)) <= _A_MOMENT


def _of_messages(job: Job) -> float:
    """Return the seconds that the messages of all steps take, by the models' schedules."""
    messages = 0
    for step in range(job.counted.stop):
        for call in job.calls(step):
            for name, nbytes in call.stages:
                model = job.collective(name, step).of_size(nbytes)
                schedule = getattr(model, "schedule", None)
                messages += job.workers if schedule is None else schedule.transfers
    return messages * _PER_MESSAGE


def _of_bundles(job: Job) -> float:
    """Return the seconds that the bundles of all steps take."""
    making = sum(len(model.members) for turns in job.collectives.values() for model in turns)
    seconds = _PER_GROUP * making
    for step in range(job.counted.stop):
        for call in job.calls(step):
            for name, _ in call.stages:
                groups = len(job.collective(name, step).members)
                seconds += groups * _PER_GROUP + job.workers * (_PER_WORKER + _PER_PLACE)
    return seconds
