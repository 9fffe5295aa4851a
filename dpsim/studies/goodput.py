"""Goodput over weeks: a job that is interrupted, waits for spares and goes on, simulated.

It is a chain of stretches: restarting, then computing with a checkpoint after each interval, until
the next fault. A stretch is one step of the simulation, however many checkpoints it holds. Faults
come at random (exponential) while the job restarts or computes; nothing fails while it waits. Some
of what was repaired fails again soon (a relapse), in the job that it has come back to.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.disturbance import (
    Cause,
    Checkpoints,
    CrashesConfig,
    Goodput,
    PerNode,
    daly_interval,
    random_streams,
)

SHARES = ("useful", "checkpoints", "lost", "restarting", "waiting")
_RUNS = 100  # of the whole time, each with faults of its own
_AROUND = 2.0 ** np.arange(-2.0, 2.25, 0.25)  # intervals tried, times the closed form's best
_MOST_FAULTS = 2_000_000  # in all runs together
_EARLIER = 10  # mean lengths of an episode of relapses that are looked back


@dataclass(frozen=True, slots=True)
class Machine:
    """What the simulation knows of a job: ``workers``, what interrupts it, and what then happens.

    ``restart`` are the seconds from a crash until it computes again; ``notice`` those of them that
    a planned stop has not.
    """

    workers: int
    causes: Sequence[Cause]
    plan: Checkpoints
    restart: float
    notice: float
    spares: int
    elastic: bool

    @property
    def rate(self) -> float:
        """Interruptions a second."""
        return sum(cause.rate for cause in self.causes)

    @property
    def first_rate(self) -> float:
        """Those of them that are no relapses."""
        return sum(cause.first_rate for cause in self.causes)


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


@dataclass(frozen=True, slots=True)
class Fault:
    """An interruption by ``cause``, and ``repair`` seconds until what failed is back.

    ``relapse``: the seconds from then until it fails again, and that fault.
    """

    cause: Cause
    repair: float
    relapse: tuple[float, Fault] | None = None


@dataclass(frozen=True, slots=True)
class Faults:
    """Draws for one run: faults that are no relapses, and seconds between them at full strength.

    ``earlier``: relapses of faults before the run, each with its time.
    """

    gaps: FloatArray
    faults: list[Fault]
    earlier: list[tuple[float, Fault]]


@dataclass(frozen=True, slots=True)
class ByCause:
    """Interruptions by one cause in a run: mean, 95 % of runs between, and shares of the time."""

    cause: str
    mean: float
    low: float
    high: float
    lost: float
    down: float


@dataclass(frozen=True, slots=True)
class GoodputStudy:
    """What a job gets out of ``seconds`` on its cluster.

    ``shares`` are means over the runs and add up to 1; 95 % of the runs have a useful share from
    ``low`` to ``high``. ``expected`` is the closed form. ``tried`` has a useful share by interval.
    """

    workers: int
    seconds: float
    runs: int
    shares: dict[str, float]
    low: float
    high: float
    interruptions: float
    causes: list[ByCause]
    expected: Goodput
    plan: Checkpoints
    best: float
    daly: float
    young: float
    tried: list[tuple[float, float]]
    timeline: list[Stop]

    def to_json(self) -> dict[str, Any]:
        """Plain values; times in seconds."""
        return {
            "workers": self.workers,
            "seconds": self.seconds,
            "runs": self.runs,
            "shares": self.shares,
            "useful": {"mean": self.shares["useful"], "low": self.low, "high": self.high},
            "interruptions": self.interruptions,
            "causes": [asdict(each) for each in self.causes],
            "expected": asdict(self.expected),
            "checkpoint": asdict(self.plan),
            "interval_s": {"best": self.best, "daly": self.daly, "young": self.young},
            "tried": [{"interval": one, "useful": useful} for one, useful in self.tried],
            "timeline": [asdict(stop) for stop in self.timeline],
        }


def goodput_study(
    crashes: CrashesConfig,
    workers: int,
    per_node: PerNode,
    seconds: float,
    *,
    loading: float = 0.0,
    seed: int = 0,
    runs: int = _RUNS,
) -> GoodputStudy:
    """Simulate ``runs`` times ``seconds`` of a job, and try other checkpoint intervals.

    ``loading``: seconds after each restart until all workers hold the checkpoint. All intervals
    meet the same faults. Raises DpsimError where there would be too many of them.
    """
    expected = crashes.goodput(workers, loading, per_node)
    plan = crashes.checkpoints(expected.mtbf)

    machine = Machine(
        workers,
        crashes.causes(workers, per_node),
        plan,
        crashes.restart_seconds(loading),
        crashes.detection_time,
        crashes.spares,
        crashes.elastic,
    )

    # What is simulated is a stretch per fault, whatever the length of the time.
    if machine.rate * seconds * runs > _MOST_FAULTS:
        raise DpsimError(
            f"goodput: must have at most {_MOST_FAULTS // runs:,} interruptions in the time, but "
            f"got {machine.rate * seconds:,.0f}"
        )
    drawn = [
        draw_faults(machine, seconds, stream) for stream in random_streams(seed, runs, "weeks")
    ]
    histories = [simulate_job(machine, seconds, faults) for faults in drawn]
    useful = np.array([each.useful for each in histories]) / seconds
    # The spread of single runs, not the error of their mean: one job is one run.
    low, high = np.quantile(useful, [0.025, 0.975])
    tried = _tried(machine, seconds, drawn)
    return GoodputStudy(
        workers,
        seconds,
        runs,
        {name: _mean_share(histories, name, seconds) for name in SHARES},
        float(low),
        float(high),
        float(np.mean([len(each.stops) for each in histories])),
        _by_cause(machine, histories, seconds),
        expected,
        plan,
        max(tried, key=lambda row: row[1])[0],
        daly_interval(plan.cost, expected.mtbf),
        # Young's interval, the first order of Daly's in cost over mean time between failures.
        math.sqrt(2 * plan.cost * expected.mtbf),
        tried,
        histories[0].stops,
    )


def draw_faults(machine: Machine, seconds: float, generator: np.random.Generator) -> Faults:
    """More interruptions than can happen in ``seconds``; repairs are lognormal of their mean."""
    expected = machine.first_rate * seconds
    # Interruptions are a Poisson process at most: ten standard deviations above the mean, and a few
    # more for means near 0. All are drawn at once, so that every checkpoint interval that is tried
    # meets the same ones.
    count = math.ceil(expected + 10 * math.sqrt(expected) + 20)
    rates = np.array([cause.first_rate for cause in machine.causes])
    chosen = generator.choice(len(rates), count, p=rates / rates.sum())
    causes = [machine.causes[number] for number in chosen]
    repairs = _repairs(causes, generator)
    gaps = generator.exponential(1 / machine.first_rate, count)
    faults = [_with_relapses(fault, generator) for fault in map(Fault, causes, repairs)]
    return Faults(gaps, faults, _of_earlier(machine, generator))


def _of_earlier(machine: Machine, generator: np.random.Generator) -> list[tuple[float, Fault]]:
    """The relapses that are due as the run begins, as if faults had come for ever."""
    due = []
    for cause in machine.causes:
        if not cause.relapse:
            continue
        # Of what came earlier next to nothing is left.
        before = _EARLIER * (cause.repair_time + cause.relapse_time) / (1 - cause.relapse)
        count = int(generator.poisson(cause.first_rate * before))
        moments = (-before * generator.random(count)).tolist()
        repairs = _repairs([cause] * count, generator)
        for began, repair in zip(moments, repairs, strict=True):
            now, fault = began, _with_relapses(Fault(cause, repair), generator)
            while now < 0 and fault.relapse:
                after, again = fault.relapse
                now, fault = now + fault.repair + after, again
            if now >= 0:
                due.append((now, fault))
    return due


def _repairs(causes: Sequence[Cause], generator: np.random.Generator) -> list[float]:
    """Seconds of one repair of each."""
    spread = np.array([cause.repair_spread for cause in causes])
    mean = np.array([cause.repair_time for cause in causes])
    # exp(spread z) has the mean exp(spread^2 / 2): taken off, so that repairs keep theirs.
    drawn = mean * np.exp(spread * generator.standard_normal(len(causes)) - spread**2 / 2)
    return list(drawn.tolist())


def _with_relapses(first: Fault, generator: np.random.Generator) -> Fault:
    """The fault and its relapses, each after the one before with the same chance."""
    cause = first.cause
    if not cause.relapse:
        return first
    count = int(generator.geometric(1 - cause.relapse)) - 1
    repairs = _repairs([cause] * count, generator)
    relapse = None
    for repair in repairs:
        after = float(generator.exponential(cause.relapse_time))
        relapse = after, Fault(cause, repair, relapse)
    return replace(first, relapse=relapse)


def simulate_job(machine: Machine, seconds: float, faults: Faults) -> History:
    """One run of ``seconds``: stretches of restarting and computing between interruptions."""
    told, job = History(), machine
    now, pending, out, met = 0.0, 0.0, 0.0, 0
    # Seconds to the next fault at full strength. A smaller job uses them up more slowly: faults
    # at a lower rate are the same faults in stretched time.
    gap = faults.gaps[0]
    repairs: list[tuple[float, float]] = []  # (when it ends, workers), the first to end first
    # (when, a number that tells those of one moment apart, the fault), the first to come first.
    relapses = [(when, -number, fault) for number, (when, fault) in enumerate(faults.earlier, 1)]
    heapq.heapify(relapses)
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
        first = now + gap / strength
        # One that was due while the job waited comes when it goes on.
        fails = min(first, max(now, relapses[0][0])) if relapses else first
        # A repair matters to the job only while it is short; otherwise another spare is there
        # again.
        returns = repairs[0][0] if is_short else math.inf
        end = min(fails, returns, seconds)
        # The job restarts before it computes, and may be struck while it still restarts.
        restarting = min(pending, end - now)
        told.restarting += restarting
        computing = end - now - restarting
        pending -= restarting
        gap -= (end - now) * strength
        now = end
        is_crash = fails <= min(returns, seconds)
        fault = faults.faults[met] if fails == first else relapses[0][2]
        keeps = not is_crash or fault.cause.planned
        lost = _compute(told, job, computing, strength, keeps=keeps)
        if end == seconds:
            break
        # Who leaves and who comes back both mean a restart; if announced, after a checkpoint.
        announced = job.plan.cost + job.plan.write + job.restart - job.notice
        pending = announced if keeps else job.restart
        if not is_crash:
            continue
        told.stops.append(Stop(now, fault.cause.name, lost, pending))
        if fault.cause.workers and fault.repair > 0:
            heapq.heappush(repairs, (now + fault.repair, fault.cause.workers))
            out += fault.cause.workers
        if fails == first:
            met += 1
            gap = faults.gaps[met]
        else:
            heapq.heappop(relapses)
        if fault.relapse:
            after, again = fault.relapse
            heapq.heappush(relapses, (now + fault.repair + after, len(told.stops), again))
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


def _tried(machine: Machine, seconds: float, drawn: Sequence[Faults]) -> list[tuple[float, float]]:
    """Intervals around the plan's, ascending, and the mean useful share with each."""
    plan = machine.plan
    least = plan.write - plan.cost  # no checkpoint begins before the one before is written
    rows = []
    for interval in dict.fromkeys(np.maximum(plan.interval * _AROUND, least).tolist()):
        other = replace(machine, plan=replace(plan, interval=interval))
        # The same faults for each interval: their luck cancels out of the comparison.
        useful = [simulate_job(other, seconds, faults).useful for faults in drawn]
        rows.append((interval, float(np.mean(useful)) / seconds))
    return rows


def _by_cause(machine: Machine, histories: Sequence[History], seconds: float) -> list[ByCause]:
    """Interruptions and lost time of each cause, the most frequent first."""
    rows = []
    for name in dict.fromkeys(cause.name for cause in machine.causes):
        found = [[stop for stop in each.stops if stop.cause == name] for each in histories]
        counts = [len(stops) for stops in found]
        low, high = np.quantile(counts, [0.025, 0.975])
        whole = seconds * len(histories)
        lost = sum(stop.lost for stops in found for stop in stops) / whole
        down = sum(stop.down for stops in found for stop in stops) / whole
        rows.append(ByCause(name, float(np.mean(counts)), float(low), float(high), lost, down))
    return sorted(rows, key=lambda row: -row.mean)


def _mean_share(histories: Sequence[History], name: str, seconds: float) -> float:
    return float(np.mean([getattr(each, name) for each in histories])) / seconds
