"""How long a run by events takes: enough to choose by."""

from __future__ import annotations

from dpsim.engine.job import Job

_A_MOMENT = 60.0  # s of the processor
# s of the processor, measured on one core of 2.5 GHz.
_PER_WORKER = 30e-6  # of a collective: computing up to it, entering, leaving
_PER_MESSAGE = 140e-6
_PER_GROUP = 2e-3  # of a bundle among others; and of making a group's model
_PER_PLACE = 100e-6  # of a rank that leaves at a time of its own


def takes_a_moment(job: Job) -> bool:
    """Whether ``job`` by events takes no more than a minute of the processor, about.

    Among other traffic messages take as long either way: the vector path plays them too, a
    collective at a time.
    """
    if job.setting.disturbed:
        return True
    return (_of_messages(job) if job.by_messages else _of_bundles(job)) <= _A_MOMENT


def _of_messages(job: Job) -> float:
    """Seconds that the messages of all steps take, of models that know their schedule."""
    messages = 0
    for step in range(job.counted.stop):
        for call in job.calls(step):
            for name, nbytes in call.stages:
                model = job.collective(name, step).of_size(nbytes)
                schedule = getattr(model, "schedule", None)
                messages += job.workers if schedule is None else schedule.transfers
    return messages * _PER_MESSAGE


def _of_bundles(job: Job) -> float:
    """Seconds that the bundles of all steps take."""
    making = sum(len(model.members) for turns in job.collectives.values() for model in turns)
    seconds = _PER_GROUP * making
    for step in range(job.counted.stop):
        for call in job.calls(step):
            for name, _ in call.stages:
                groups = len(job.collective(name, step).members)
                seconds += groups * _PER_GROUP + job.workers * (_PER_WORKER + _PER_PLACE)
    return seconds
