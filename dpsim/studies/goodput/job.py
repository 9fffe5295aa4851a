"""Simulate one run of an interrupted job: its stretches of restarting and computing."""

from __future__ import annotations

import heapq
import math

from dpsim.studies.goodput.faults import Coming, Faults
from dpsim.studies.goodput.machine import Machine
from dpsim.studies.goodput.stretch import (
    Course,
    History,
    Kept,
    Stop,
    Stretch,
    histories,
    kept_of,
    restart_after,
)


def simulate_job(machine: Machine, seconds: float, faults: Faults) -> History:
    """Simulate one run of ``seconds``: restarting and computing between interruptions."""
    return histories([machine], [course_of(machine, seconds, faults)])[0][0]


def course_of(job: Machine, seconds: float, faults: Faults) -> Course:
    """Return the course of one run of ``seconds``, for any interval between checkpoints."""
    course = Course()
    now, pending, out, reads_copy = 0.0, 0.0, 0.0, False
    coming = Coming(faults)
    repairs: list[tuple[float, float]] = []  # a heap of (end, workers)
    while now < seconds:
        while repairs and repairs[0][0] <= now:
            out -= heapq.heappop(repairs)[1]
        missing = max(0.0, out - job.spares) if out else 0.0
        is_short = missing > 1e-9  # sums of workers of unequal racks are not exact
        if is_short and (not job.elastic or missing >= job.workers):
            back = min(repairs[0][0], seconds)
            course.waiting += back - now
            now = back
            continue

        # Fewer workers have fewer faults.
        strength = 1 - missing / job.workers
        fails = coming.next_at(now, strength)
        # A repair interrupts the job only if workers are missing; otherwise it returns a spare.
        returns = repairs[0][0] if is_short else math.inf
        end = min(fails, returns, seconds)
        # The job may fail again while it restarts.
        restarting = min(pending, end - now)
        course.restarting += restarting
        computing = end - now - restarting
        pending -= restarting
        coming.advance(end - now, strength)
        now = end
        fault = coming.take(now) if fails == end else None
        # Before the state is read back, it is in no memory.
        has_copies = pending <= 0 or reads_copy
        kept = kept_of(None if fault is None else fault.cause, has_copies=has_copies)
        pending, reads_copy = restart_after(job, kept), kept is Kept.COPY
        stop = None
        if fault is not None and end < seconds:
            stop = Stop(now, fault.cause.name, 0.0, pending)
        course.stretches.append(Stretch(computing, strength, kept, stop))
        if fault is None:
            continue
        if fault.workers and fault.repair > 0:
            heapq.heappush(repairs, (now + fault.repair, fault.workers))
            out += fault.workers
    return course
