"""How long a run by events takes: enough to choose by."""

from __future__ import annotations

from dpsim.engine.job import Job

_A_MOMENT = 60.0  # s of the processor
# s of the processor, measured on one core of 2.5 GHz.
_PER_WORKER = 30e-6  # of a collective: computing up to it, entering, leaving
_PER_GROUP = 2e-3  # of a bundle among others; and of making a group's model
_PER_PLACE = 100e-6  # of a rank that leaves at a time of its own


def takes_a_moment(job: Job) -> bool:
    """Whether ``job`` by events takes no more than a minute of the processor, about.

    Messages take as long either way: the vector path plays them too, a collective at a time.
    """
    return job.by_messages or _seconds(job) <= _A_MOMENT


def _seconds(job: Job) -> float:
    """Of bundles."""
    making = sum(len(model.meeting) for turns in job.collectives.values() for model in turns)
    seconds = _PER_GROUP * making
    for step in range(job.counted.stop):
        for call in job.calls(step):
            for name, _ in call.stages:
                groups = len(job.collective(name, step).meeting)
                seconds += groups * _PER_GROUP + job.workers * (_PER_WORKER + _PER_PLACE)
    return seconds
