"""One run of a job that is interrupted: stretches of restarting and computing."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

from dpsim.studies.goodput.faults import Coming, Faults
from dpsim.studies.goodput.machine import Machine


@dataclass(frozen=True, slots=True)
class Stop:
    """An interruption: when, why, seconds of work that were lost, and of standing still."""

    at: float
    cause: str
    lost: float
    down: float


@dataclass(slots=True)
class History:
    """Seconds of one simulated run by what they went into, and its interruptions in order."""

    useful: float = 0.0
    checkpoints: float = 0.0
    lost: float = 0.0
    restarting: float = 0.0
    waiting: float = 0.0
    stops: list[Stop] = field(default_factory=list)


def simulate_job(machine: Machine, seconds: float, faults: Faults) -> History:
    """One run of ``seconds``: stretches of restarting and computing between interruptions."""
    told, job = History(), machine
    now, pending, out = 0.0, 0.0, 0.0
    coming = Coming(faults)
    repairs: list[tuple[float, float]] = []  # (when it ends, workers), the first to end first
    while now < seconds:
        while repairs and repairs[0][0] <= now:
            out -= heapq.heappop(repairs)[1]
        missing = max(0.0, out - job.spares)
        is_short = missing > 1e-9  # sums of workers of unequal racks are not exact
        if is_short and (not job.elastic or missing >= job.workers):
            back = min(repairs[0][0], seconds)
            told.waiting += back - now
            now = back
            continue

        # With fewer workers there are fewer that can fail.
        strength = 1 - missing / job.workers
        fails = coming.next_at(now, strength)
        # A repair matters to the job only while it is short; otherwise another spare is there
        # again.
        returns = repairs[0][0] if is_short else math.inf
        end = min(fails, returns, seconds)
        # The job restarts before it computes, and may be struck while it still restarts.
        restarting = min(pending, end - now)
        told.restarting += restarting
        computing = end - now - restarting
        pending -= restarting
        coming.passed(end - now, strength)
        now = end
        fault = coming.struck(now) if fails <= min(returns, seconds) else None
        keeps = fault is None or fault.cause.planned
        lost = _compute(told, job, computing, strength, keeps=keeps)
        if end == seconds:
            break
        # Who leaves and who comes back both mean a restart; if announced, after a checkpoint.
        announced = job.plan.cost + job.plan.write + job.restart - job.notice
        pending = announced if keeps else job.restart
        if fault is None:
            continue
        told.stops.append(Stop(now, fault.cause.name, lost, pending))
        if fault.cause.workers and fault.repair > 0:
            heapq.heappush(repairs, (now + fault.repair, fault.cause.workers))
            out += fault.cause.workers
    return told


def _compute(told: History, job: Machine, seconds: float, strength: float, *, keeps: bool) -> float:
    """Book a stretch of computing, and say how many seconds of it are lost.

    After a crash only what a finished checkpoint holds counts; otherwise all of it.
    """
    plan = job.plan
    if keeps:
        kept = math.floor(seconds / plan.period)
        # What is left of the last period is work until its interval is over, then the checkpoint.
        worked = kept * plan.interval + min(seconds - kept * plan.period, plan.interval)
    else:
        # A checkpoint counts once it is written, and until then the one before does.
        kept = max(0, math.floor((seconds - plan.write) / plan.period))
        worked = kept * plan.interval
    lost = 0.0 if keeps else seconds - kept * plan.period

    # What missing workers would have done of the work counts as waiting for them.
    told.useful += worked * strength
    told.waiting += worked * (1 - strength)
    told.checkpoints += seconds - lost - worked
    told.lost += lost
    return lost
