"""A stretch of computing between interruptions: the useful and the lost part of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from dpsim.disturbance import Cause
from dpsim.studies.goodput.machine import Machine


class Stop(NamedTuple):
    """An interruption: its time, cause, lost work (s) and downtime (s)."""

    at: float
    cause: str
    lost: float
    down: float


@dataclass(slots=True)
class History:
    """The time of one simulated run by use (s), and its interruptions in order."""

    useful: float = 0.0
    checkpoints: float = 0.0
    lost: float = 0.0
    restarting: float = 0.0
    waiting: float = 0.0
    stops: list[Stop] = field(default_factory=list)


class Kept(Enum):
    """The part of a stretch of computing that is kept at its end."""

    ALL = auto()
    COPY = auto()
    CHECKPOINT = auto()


@dataclass(slots=True)
class Place:
    """The progress of a job since its last checkpoint: ``copies`` made.

    The other fields are the seconds booked for it so far, which are lost if the copies are.
    """

    copies: int = 0
    useful: float = 0.0
    checkpoints: float = 0.0
    waiting: float = 0.0


def kept_of(cause: Cause | None, *, has_copies: bool) -> Kept:
    """Return what is kept after a fault; all without a fault, when a repaired worker returns."""
    if cause is None or cause.planned:
        return Kept.ALL
    return Kept.COPY if cause.leaves_copies and has_copies else Kept.CHECKPOINT


def restart_after(job: Machine, kept: Kept) -> float:
    """Return the seconds from an interruption until the job computes again."""
    if kept is Kept.ALL:
        # Workers that leave and workers that return both mean a restart; if announced, after a
        # checkpoint.
        return job.plan.cost + job.plan.write + job.restart - job.notice
    if job.copies is None:
        return job.restart
    # Falling back one more checkpoint while one is being written costs as much as a longer restart.
    return job.copies.restart if kept is Kept.COPY else job.restart + job.plan.write


def compute(
    told: History, job: Machine, place: Place, seconds: float, strength: float, kept: Kept
) -> float:
    """Book a stretch of computing from ``place`` on, and return the lost seconds.

    They may exceed the stretch, since earlier work since the last checkpoint may be lost too.
    """
    period = job.period
    # Counted from the last checkpoint, as if the place had been reached in one go.
    reached = seconds + place.copies * period.segment
    # A checkpoint counts once it is written; until then the previous one does.
    unwritten = job.plan.write if kept is Kept.CHECKPOINT and job.copies is None else 0.0
    periods = max(0, math.floor((reached - unwritten) / period.whole))
    since = reached - periods * period.whole
    # A place is a whole number of segments, apart from rounding.
    copies = min(math.floor(since / period.segment + 1e-9), period.segments)

    if kept is Kept.CHECKPOINT and not periods:
        _unbook(told, place)
        told.lost += reached
        return reached
    lost = 0.0
    if kept is not Kept.ALL:
        lost = since if kept is Kept.CHECKPOINT else since - copies * period.segment
    worked = (periods * period.segments - place.copies) * period.work
    if kept is not Kept.CHECKPOINT:
        worked += copies * period.work
    if kept is Kept.ALL and copies < period.segments:
        # The rest of the last segment is work until its copy or checkpoint begins.
        worked += min(max(0.0, since - copies * period.segment), period.work)

    # The work of missing workers counts as waiting for them.
    told.useful += worked * strength
    told.waiting += worked * (1 - strength)
    told.checkpoints += seconds - lost - worked
    told.lost += lost
    if place.copies and (kept is not Kept.COPY or periods):
        _forget(place)
    if kept is Kept.COPY:
        work = (copies - place.copies) * period.work
        place.useful += work * strength
        place.waiting += work * (1 - strength)
        place.checkpoints += (copies - place.copies) * (period.segment - period.work)
        place.copies = copies
    return lost


def _unbook(told: History, place: Place) -> None:
    """Take back what was booked for copies that are lost."""
    told.useful -= place.useful
    told.waiting -= place.waiting
    told.checkpoints -= place.checkpoints
    _forget(place)


def _forget(place: Place) -> None:
    place.copies, place.useful, place.checkpoints, place.waiting = 0, 0.0, 0.0, 0.0
