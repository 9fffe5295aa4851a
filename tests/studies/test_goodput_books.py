"""Stretches of many runs and intervals at once are booked as one run's are, one after the other."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from dpsim.disturbance import Checkpoints, Copies
from dpsim.studies.goodput import Course, Kept, Machine, Stop, Stretch, histories

USES = ("useful", "waiting", "checkpoints", "lost")
INTERVALS = (50.0, 100.0, 333.0, 2000.0)


class OneRun:
    """Books one stretch of one run after the other, in plain Python."""

    def __init__(self, machine):
        self.machine = machine
        self.totals = dict.fromkeys(USES, 0.0)
        self.place = SimpleNamespace(copies=0, totals=dict.fromkeys(USES, 0.0))

    def add(self, totals, work, strength, checkpoints, lost=0.0):
        totals["useful"] += work * strength
        totals["waiting"] += work * (1 - strength)
        totals["checkpoints"] += checkpoints
        totals["lost"] += lost

    def forget(self):
        self.place.copies, self.place.totals = 0, dict.fromkeys(USES, 0.0)

    def book(self, stretch):
        seconds, strength, kept, _ = stretch
        period, place = self.machine.period, self.place
        reached = seconds + place.copies * period.segment
        unwritten = 0.0
        if kept is Kept.CHECKPOINT and self.machine.copies is None:
            unwritten = self.machine.plan.write
        periods = max(0, math.floor((reached - unwritten) / period.whole))
        if kept is Kept.CHECKPOINT and not periods:
            for use in USES:
                self.totals[use] -= place.totals[use]
            self.totals["lost"] += reached
            self.forget()
            return reached
        since = reached - periods * period.whole
        copies = min(math.floor(since / period.segment + 1e-9), period.segments)
        beyond = since - copies * period.segment
        lost = {Kept.ALL: 0.0, Kept.COPY: beyond, Kept.CHECKPOINT: since}[kept]
        worked = (periods * period.segments - place.copies) * period.work
        if kept is not Kept.CHECKPOINT:
            worked += copies * period.work
        if kept is Kept.ALL and copies < period.segments:
            worked += min(max(0.0, beyond), period.work)
        self.add(self.totals, worked, strength, seconds - lost - worked, lost)
        if kept is not Kept.COPY or periods:
            self.forget()
        if kept is Kept.COPY:
            made = copies - self.place.copies
            copying = made * (period.segment - period.work)
            self.add(self.place.totals, made * period.work, strength, copying)
            self.place.copies = copies
        return lost


def machine(interval, copies):
    plan = Checkpoints(interval, cost=20.0, write=35.0)
    return Machine(8, (), plan, 30.0, 5.0, 1, True, copies)


def course(generator, ends):
    """A run of 40 stretches, from a tenth of an interval to several, at strengths of an elastic
    job.
    """
    return Course(
        stretches=[
            Stretch(
                float(generator.exponential(400)),
                float(generator.choice([1.0, 0.875, 0.25])),
                ends[generator.integers(len(ends))],
                Stop(0.0, "fault", 0.0, 0.0),
            )
            for _ in range(generator.integers(1, 40))
        ]
    )


@pytest.mark.parametrize(
    ("copies", "ends"),
    [
        (None, (Kept.ALL, Kept.CHECKPOINT)),
        (Copies(interval=60.0, cost=0.0, restart=10.0), tuple(Kept)),
        (Copies(interval=60.0, cost=4.0, restart=10.0), (*Kept, Kept.COPY, Kept.COPY)),
    ],
)
def test_runs_and_intervals_computed_at_once_equal_each_separately(copies, ends):
    generator = np.random.default_rng(1)
    courses = [course(generator, ends) for _ in range(20)]
    machines = [machine(interval, copies) for interval in INTERVALS]
    for row, one in enumerate(machines):
        found, useful = histories(machines, courses, row)
        for run, (each, history) in enumerate(zip(courses, found, strict=True)):
            single = OneRun(one)
            lost = [single.book(stretch) for stretch in each.stretches]
            assert [stop.lost for stop in history.stops] == pytest.approx(lost, rel=1e-12, abs=1e-9)
            totals = {use: getattr(history, use) for use in USES}
            assert totals == pytest.approx(single.totals, rel=1e-12, abs=1e-9)
            assert useful[row, run] == history.useful
