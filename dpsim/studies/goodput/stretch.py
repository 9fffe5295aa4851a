"""Stretches of computing between interruptions: their useful and their lost time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum, auto
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray
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


class Kept(IntEnum):
    """The part of a stretch of computing that is kept after it."""

    ALL = auto()
    COPY = auto()
    CHECKPOINT = auto()


class Stretch(NamedTuple):
    """Seconds of computing by a share ``strength`` of the job, and which part of it is kept.

    ``stop`` is the interruption that ends it, without its lost work; None if there is none.
    """

    computing: float = 0.0
    strength: float = 1.0
    kept: Kept = Kept.ALL
    stop: Stop | None = None


@dataclass(slots=True)
class Course:
    """The parts of a simulated run that do not depend on the checkpoint interval (s)."""

    restarting: float = 0.0
    waiting: float = 0.0
    stretches: list[Stretch] = field(default_factory=list)


def kept_of(cause: Cause | None, *, has_copies: bool) -> Kept:
    """Return which work survives ``cause``; all of it for None, a repaired worker's return."""
    if cause is None or cause.planned:
        return Kept.ALL
    return Kept.COPY if cause.leaves_copies and has_copies else Kept.CHECKPOINT


def restart_after(job: Machine, kept: Kept) -> float:
    """Return the seconds from an interruption until the job computes again."""
    if kept is Kept.ALL:
        # A planned stop and returning workers need a checkpoint and a restart.
        return job.plan.cost + job.plan.write + job.restart - job.notice
    if job.copies is None:
        return job.restart
    # A crash while a checkpoint is written falls back to the previous one, like a longer restart.
    return job.copies.restart if kept is Kept.COPY else job.restart + job.plan.write


class Books:
    """The use of the computing time of ``runs`` runs on machines of different checkpoint intervals.

    ``booked``: seconds that were useful, waiting for workers, for checkpoints and lost, of shape
    (4, machines, runs).
    """

    def __init__(self, machines: Sequence[Machine], runs: int) -> None:
        self._job = machines[0]
        periods = [each.period for each in machines]
        columns = [(each.segments, each.work, each.segment, each.whole) for each in periods]
        self._segments, self._work, self._segment, self._whole = np.array(columns).T[..., None]
        self.booked = np.zeros((4, len(periods), runs))
        # Copies since the last checkpoint, and the seconds booked for them, which are lost with
        # them.
        self._copies, *self._booked_for_copies = np.zeros_like(self.booked)

    def book(self, stretches: Sequence[Stretch]) -> FloatArray:
        """Book a stretch of each run, and return the lost seconds.

        More than the stretch may be lost, because earlier work since the last checkpoint is too.
        """
        seconds, strength, kept = np.array([each[:3] for each in stretches]).T
        to_copy, to_checkpoint = kept == Kept.COPY, kept == Kept.CHECKPOINT
        # Seconds since the last checkpoint.
        reached = seconds + self._copies * self._segment
        # A checkpoint counts when it is written.
        unwritten = to_checkpoint * self._job.plan.write if self._job.copies is None else 0.0
        periods = np.maximum(np.floor((reached - unwritten) / self._whole), 0.0)
        since = reached - periods * self._whole
        copies = np.minimum(np.floor(since / self._segment + 1e-9), self._segments)  # rounding

        after_copy = since - copies * self._segment
        lost: FloatArray = np.where(to_checkpoint, since, to_copy * after_copy)
        worked = (periods * self._segments - self._copies) * self._work
        worked += np.where(to_checkpoint, 0.0, copies * self._work)
        # The last segment is work until its copy or checkpoint begins.
        in_segment = (kept == Kept.ALL) & (copies < self._segments)
        worked += in_segment * np.clip(after_copy, 0.0, self._work)
        checkpoints = seconds - lost - worked
        # The work of missing workers counts as waiting for them.
        spent = np.stack([worked * strength, worked * (1 - strength), checkpoints])
        # Without a new checkpoint, the seconds booked for lost copies are subtracted.
        self.booked[:3] += np.where(
            to_checkpoint & (periods == 0), np.negative(self._booked_for_copies), spent
        )
        self.booked[3] += lost

        keeps_copies = to_copy & (periods == 0)
        self._copies *= keeps_copies
        made = to_copy * (copies - self._copies)
        work, copying = made * self._work, made * (self._segment - self._work)
        shares = (work * strength, work * (1 - strength), copying)
        self._booked_for_copies = [
            old * keeps_copies + new
            for old, new in zip(self._booked_for_copies, shares, strict=True)
        ]
        self._copies += made
        return lost


def histories(
    machines: Sequence[Machine], courses: Sequence[Course], own: int = 0
) -> tuple[list[History], FloatArray]:
    """Return each run's history on machine ``own``, and useful seconds, (machines, runs)."""
    books = Books(machines, len(courses))
    # Runs that have ended get empty stretches.
    aligned = zip_longest(*(each.stretches for each in courses), fillvalue=Stretch())
    lost = [books.book(stretches)[own].tolist() for stretches in aligned]
    listed = []
    for run, course in enumerate(courses):
        ended = zip(course.stretches, lost, strict=False)  # others may have more stretches
        stops = [each.stop._replace(lost=work[run]) for each, work in ended if each.stop]
        useful, waiting, checkpoints, whole = books.booked[:, own, run].tolist()
        waiting += course.waiting
        listed.append(History(useful, checkpoints, whole, course.restarting, waiting, stops))
    return listed, books.booked[0]
