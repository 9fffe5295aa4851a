"""The division of a killed job's time, as measured and as predicted by `goodput`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt

from dpsim.base.config import Config
from dpsim.disturbance import Cause, Checkpoints
from dpsim.studies.goodput import Fault, Faults, History, Machine, simulate_job

TOTAL = "total.json"  # rank 0's file at the end of the job
PARTS = ("useful", "checkpoints", "lost", "restarting")


class Job(Config):
    """Steps of timed waits, and a checkpoint after every so many of them.

    ``kills``: seconds of computing, since it began or went on, after which a rank is killed.
    """

    ranks: PositiveInt = Field(default=4, ge=2, description="Processes on this machine.")
    steps: PositiveInt = Field(default=100, description="Number of steps.")
    step_s: PositiveFloat = Field(default=0.1, description="Compute time of a step in seconds.")
    every: PositiveInt = Field(default=10, description="Steps between checkpoints.")
    checkpoint_s: PositiveFloat = Field(default=0.2, description="Time of a checkpoint in seconds.")
    kills: tuple[PositiveFloat, ...] = Field(
        default=(), description="Times at which a rank is killed."
    )


class Kill(Config):
    """When a rank was killed, and when the launcher had ended the others; monotonic seconds."""

    at: float
    ended: float


class Stop(Config):
    """One kill: seconds of computing before it, the lost part of these, and until all had ended.

    ``restart_s``: from the kill until the ranks compute again.
    """

    computing_s: float
    lost_s: float
    detection_s: float
    restart_s: float


class Killed(Config):
    """The seconds of a job that was killed and then finished, by what they were spent on."""

    job: Job
    seconds: float
    useful: float
    checkpoints: float
    lost: float
    restarting: float
    stops: tuple[Stop, ...]


class Comparison(Config):
    """The seconds of a job by part, predicted and measured; ``recovery`` is per kill.

    The recovery of a kill is its cost: the lost work, and the restart.
    """

    predicted: dict[str, float]
    measured: dict[str, float]
    recovery_predicted: tuple[float, ...]
    recovery_measured: tuple[float, ...]

    @property
    def recovery_error(self) -> float:
        """The relative error of the total cost of all kills."""
        return sum(self.recovery_predicted) / sum(self.recovery_measured) - 1

    @property
    def useful_error(self) -> float:
        """The error of the useful share of time: 0.01 is one percentage point."""
        whole = sum(self.measured.values())
        foretold = sum(self.predicted.values())
        return self.predicted["useful"] / foretold - self.measured["useful"] / whole


def tally(job: Job, rows: Sequence[Mapping[str, Any]], kills: Sequence[Kill]) -> Killed:
    """Divide the time since the first begin by rank 0's notes."""
    # Rank 0 notes a begin at the start and after each restart. A kill or the end ends a period.
    begins = [row["at"] for row in rows if row["event"] == "begin"]
    ends = [*(kill.at for kill in kills), rows[-1]["at"]]
    stops, useful, checkpoints, lost = [], 0.0, 0.0, 0.0
    for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        kept = [row for row in rows if begin <= row["at"] <= end]
        if number < len(kills):
            # Ranks continue from the last checkpoint: later work was lost.
            whole = [at for at, row in enumerate(kept) if row["event"] in ("begin", "saved")]
            kept = kept[: whole[-1] + 1]
            gone = end - kept[-1]["at"]
            lost += gone
            kill = kills[number]
            stops.append(
                Stop(
                    computing_s=end - begin,
                    lost_s=gone,
                    detection_s=kill.ended - kill.at,
                    restart_s=begins[number + 1] - kill.at,
                )
            )
        # Each checkpoint's note follows its step's note.
        noted = pairwise(kept)
        saving = sum(after["at"] - row["at"] for row, after in noted if after["event"] == "saved")
        checkpoints += saving
        useful += kept[-1]["at"] - begin - saving
    return Killed(
        job=job,
        seconds=ends[-1] - begins[0],
        useful=useful,
        checkpoints=checkpoints,
        lost=lost,
        restarting=sum(stop.restart_s for stop in stops),
        stops=tuple(stops),
    )


def mean_restart(found: Killed) -> float:
    """Return the mean seconds from a kill until the ranks compute again."""
    return float(np.mean([stop.restart_s for stop in found.stops]))


def compare(found: Killed, restart_s: float) -> Comparison:
    """Compare the measurement with `goodput`'s simulation of the same kills.

    The simulation knows the planned job, the times of the kills, and ``restart_s`` of other runs.
    """
    simulated = _simulate(found, restart_s)
    return Comparison(
        predicted={part: getattr(simulated, part) for part in PARTS},
        measured={part: getattr(found, part) for part in PARTS},
        recovery_predicted=tuple(stop.lost + stop.down for stop in simulated.stops),
        recovery_measured=tuple(stop.lost_s + stop.restart_s for stop in found.stops),
    )


def _simulate(found: Killed, restart_s: float) -> History:
    """Simulate the job's time from its first step to its last planned one."""
    job = found.job
    cause = Cause("kill", 1.0, 0.0, 0.0)
    plan = Checkpoints(job.every * job.step_s, job.checkpoint_s, write=0.0)
    machine = Machine(job.ranks, [cause], plan, restart_s, 0.0, spares=0, elastic=False)
    # A kill's time counts from when the ranks compute again, after a restart.
    computing = np.array([stop.computing_s for stop in found.stops])
    gaps = computing + restart_s
    # There is no restart before the first kill.
    gaps[:1] -= restart_s
    faults = Faults(np.append(gaps, np.inf), [Fault(cause, 0.0)] * (len(gaps) + 1), [])
    return simulate_job(machine, float(gaps.sum()) + restart_s + _seconds_left(found), faults)


def _seconds_left(found: Killed) -> float:
    """Return the seconds of steps and checkpoints after the last restart, by the plan."""
    job = found.job
    period = job.every * job.step_s + job.checkpoint_s
    saved = sum(int(stop.computing_s / period) for stop in found.stops) * job.every
    steps = job.steps - saved
    return steps * job.step_s + steps // job.every * job.checkpoint_s
