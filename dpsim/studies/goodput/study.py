"""The goodput of a job over weeks: many runs, other checkpoint intervals, stops by cause."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dpsim.base.errors import DpsimError
from dpsim.disturbance import (
    Checkpoints,
    CrashesConfig,
    Goodput,
    PerNode,
    daly_interval,
    random_streams,
)
from dpsim.studies.goodput.faults import Faults, draw_faults, relevant_seconds
from dpsim.studies.goodput.job import course_of
from dpsim.studies.goodput.machine import Machine
from dpsim.studies.goodput.stretch import History, Stop, histories

SHARES = ("useful", "checkpoints", "lost", "restarting", "waiting")
_RUNS = 100
_FACTORS = 2.0 ** np.arange(-2.0, 2.25, 0.25)  # intervals to try, over the closed form's best
_MOST_FAULTS = 2_000_000  # in all runs together


@dataclass(frozen=True, slots=True)
class ByCause:
    """Interruptions by one cause in a run: mean, 95 % interval, and shares of the time."""

    cause: str
    mean: float
    low: float
    high: float
    lost: float
    down: float


@dataclass(frozen=True, slots=True)
class GoodputStudy:
    """How a job uses ``seconds`` on its cluster.

    ``shares`` are means over runs, and add up to 1; 95 % of runs have a useful share from ``low``
    to ``high``. ``expected`` is the closed form. ``tried``: useful share by interval.
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
        """Return plain values; times in seconds."""
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
            "timeline": [stop._asdict() for stop in self.timeline],
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
    """Simulate ``seconds`` of a job ``runs`` times, and try other checkpoint intervals.

    ``loading``: seconds after each restart until all workers hold the checkpoint. All intervals are
    simulated with the same faults. Raises DpsimError for too many faults.
    """
    # Compute the causes once, because they may be read from a file.
    causes = crashes.causes(workers, per_node)
    expected = crashes.goodput_of(causes, workers, loading)
    machine = Machine(
        workers,
        causes,
        crashes.plan(causes),
        crashes.restart_seconds(loading),
        crashes.detection_time,
        crashes.spares,
        crashes.elastic,
        crashes.copies(loading),
    )
    plan = machine.plan
    drawn = _draw_runs(machine, seconds, seed, runs)
    # The scenario's interval may be far from a good one.
    centre = crashes.model_copy(update={"checkpoint_interval": None}).plan(causes).interval
    intervals = _intervals(plan, centre)
    machines = [replace(machine, plan=replace(plan, interval=each)) for each in intervals]
    # Use the same faults for each interval, so that chance does not decide.
    courses = [course_of(machine, seconds, faults) for faults in drawn]
    runs_of_plan, useful = histories(machines, courses, intervals.index(plan.interval))
    tried = list(zip(intervals, (useful.mean(axis=1) / seconds).tolist(), strict=True))
    # Give the spread of single runs instead of the error of their mean.
    shares = [each.useful / seconds for each in runs_of_plan]
    low, high = np.quantile(shares, [0.025, 0.975])
    return GoodputStudy(
        workers,
        seconds,
        runs,
        {
            name: float(np.mean([getattr(each, name) for each in runs_of_plan])) / seconds
            for name in SHARES
        },
        float(low),
        float(high),
        float(np.mean([len(each.stops) for each in runs_of_plan])),
        _by_cause(machine, runs_of_plan, seconds),
        expected,
        plan,
        max(tried, key=lambda row: row[1])[0],
        daly_interval(plan.cost, expected.mtbf),
        # Young's interval, the first order of Daly's.
        math.sqrt(2 * plan.cost * expected.mtbf),
        tried,
        runs_of_plan[0].stops,
    )


def _draw_runs(machine: Machine, seconds: float, seed: int, runs: int) -> list[Faults]:
    """Draw the faults of each run. Raises DpsimError for too many of them."""
    # Simulation time is proportional to the number of faults.
    earlier = sum(cause.first_rate * relevant_seconds(cause) for cause in machine.causes)
    faults = machine.rate * seconds + earlier
    if faults * runs > _MOST_FAULTS:
        raise DpsimError(
            f"goodput: must have at most {_MOST_FAULTS // runs:,} interruptions in the time, but "
            f"got {faults:,.0f}"
        )
    return [draw_faults(machine, seconds, stream) for stream in random_streams(seed, runs, "weeks")]


def _intervals(plan: Checkpoints, centre: float) -> list[float]:
    """Return the checkpoint intervals to try, ascending: the plan's, and some around ``centre``."""
    least = plan.write - plan.cost  # a checkpoint cannot begin before the previous one is written
    return sorted({plan.interval, *np.maximum(centre * _FACTORS, least).tolist()})


def _by_cause(machine: Machine, runs: Sequence[History], seconds: float) -> list[ByCause]:
    """Return the interruptions and lost time of each cause, the most frequent first."""
    rows = []
    whole = seconds * len(runs)
    for name in dict.fromkeys(cause.name for cause in machine.causes):
        counts = [sum(stop.cause == name for stop in each.stops) for each in runs]
        low, high = np.quantile(counts, [0.025, 0.975])
        stops = [stop for each in runs for stop in each.stops if stop.cause == name]
        lost = sum(stop.lost for stop in stops) / whole
        down = sum(stop.down for stop in stops) / whole
        rows.append(ByCause(name, float(np.mean(counts)), float(low), float(high), lost, down))
    return sorted(rows, key=lambda row: -row.mean)
