"""Crashes: a worker fails, and the job restarts from its last checkpoint.

A spare replaces the worker if there is one. Faults of several causes affect workers, nodes, racks
or the whole job; `dpsim.studies.goodput` simulates them, `CrashesConfig.goodput` has the closed
forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field, NonNegativeInt, model_validator

from dpsim.base.config import Config
from dpsim.base.units import BytesPerSecond, PositiveBytes, PositiveSeconds, Seconds
from dpsim.disturbance.checkpoints import (
    daly_interval,
    expected_seconds,
    expected_with_copies,
    missing_share,
    waiting_share,
)
from dpsim.disturbance.faults import (
    HOUR,
    Cause,
    PerNode,
    WhichFaults,
    listed_faults,
)

# Finite, because a ratio of two infinite intervals is not a number.
_NEVER = 1e15  # seconds between crashes of a job without any
_USUAL_COST = 60.0  # default seconds of a checkpoint; an assumption


@dataclass(frozen=True, slots=True)
class Goodput:
    """Fractions of a job's time that add up to 1; ``useful`` is the goodput.

    ``interval`` (work between checkpoints) and ``mtbf`` are in seconds.
    """

    interval: float
    mtbf: float
    useful: float
    checkpoints: float
    lost: float
    waiting: float


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """A checkpoint after every ``interval`` seconds of work, which delays training by ``cost`` s.

    It can be restored ``write`` seconds later; until then the previous one is used.
    """

    interval: float
    cost: float
    write: float

    @property
    def period(self) -> float:
        """Seconds from one checkpoint to the next."""
        return self.interval + self.cost


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies in neighbours' memory, between checkpoints.

    A copy is made after ``interval`` seconds of work and stops the job for ``cost`` seconds;
    restoring one takes ``restart`` seconds.
    """

    interval: float
    cost: float
    restart: float

    def segments(self, work: float) -> int:
        """Return the number of copies in ``work`` seconds, at equal intervals, at least 1."""
        return max(1, round(work / self.interval))


class NeighbourConfig(Config):
    """Copies of the state in the memory of a neighbouring node, between checkpoints to storage.

    After a fault the job restarts from the last copy, unless the neighbour fails too. Source: Wang
    et al., "GEMINI", SOSP 2023. The defaults are assumptions.
    """

    interval: PositiveSeconds = Field(default=60.0, description="Compute time between two copies.")
    cost: Seconds = Field(
        default=0.0,
        description=(
            "Time that the job stops for each copy; 0 if copies are sent while links are idle."
        ),
    )
    read_time: Seconds = Field(default=10.0, description="Time to restore a copy.")
    same_rack: bool = Field(
        default=True,
        description="Whether the neighbour is in the same rack and fails with it.",
    )


class CrashesConfig(Config):
    """Failures of workers, and the recovery from them.

    The default time between failures is for a GPU and its share of a large run: 419
    unexpected interruptions in 54 days on 16,384 GPUs make 50,700 hours (Dubey et al., "The Llama 3
    herd of models", 2024). Other defaults are assumptions.
    """

    mtbf: PositiveSeconds = Field(
        default=50_000 * HOUR,
        description="Mean time between failures of one worker, used unless faults are listed.",
    )
    faults: WhichFaults | None = Field(
        default=None,
        description=(
            "Faults by cause, instead of mtbf and repair_time: a list; the name of a table, "
            "llama3 (54 days of 16,384 GPUs) or gpu-servers (348 days of 400 servers); or a trace "
            "of your own servers."
        ),
    )
    checkpoint_interval: PositiveSeconds | None = Field(
        default=None,
        description=(
            "Compute time between checkpoints; the optimum by Daly's formula if left out."
        ),
    )
    checkpoint_cost: PositiveSeconds | None = Field(
        default=None,
        description=(
            "Time that the job stops for each checkpoint; if left out, the time to write "
            "checkpoint_size, or 60 s without it."
        ),
    )
    checkpoint_size: PositiveBytes | None = Field(
        default=None, description="Bytes of one checkpoint of the whole job; needs storage_rate."
    )
    storage_rate: BytesPerSecond | None = Field(
        default=None, description="Rate at which all workers together write and read checkpoints."
    )
    asynchronous: bool = Field(
        default=False,
        description=(
            "Whether checkpoints are written while training continues: the job stops only for "
            "checkpoint_cost. Until one is written, a crash goes back to the previous one."
        ),
    )
    slowdown: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0, description="Share of the speed lost while a checkpoint is written."
    )
    detection_time: Seconds = Field(
        default=0.0, description="Time to detect a crash, such as a collective's timeout."
    )
    restart_time: Seconds = Field(
        default=300.0,
        description="Time from detection until the job computes again, if a worker is available.",
    )
    spares: NonNegativeInt = Field(default=0, le=1_000_000, description="Spare workers.")
    repair_time: Seconds = Field(
        default=0.0,
        description="Time until a failed worker is a spare; 0 if it only restarts.",
    )
    elastic: bool = Field(
        default=False,
        description="Without a spare, continue with fewer workers instead of waiting.",
    )
    neighbour: NeighbourConfig | None = Field(
        default=None,
        description="Additional copies in a neighbouring node's memory; none if left out.",
    )

    @model_validator(mode="after")
    def _check_checkpoint_fields(self) -> CrashesConfig:
        if (self.checkpoint_size is None) != (self.storage_rate is None):
            raise ValueError("checkpoint_size and storage_rate must be given together")
        if self.asynchronous and self.checkpoint_size is None:
            raise ValueError("asynchronous must be given with checkpoint_size and storage_rate")
        if self.slowdown and not self.asynchronous:
            raise ValueError(f"slowdown must be 0 unless asynchronous, but got {self.slowdown:g}")
        if self.checkpoint_cost and self.checkpoint_size and not self.asynchronous:
            raise ValueError("checkpoint_cost must be left out where checkpoint_size is given")
        return self

    def causes(self, workers: int, per_node: PerNode) -> list[Cause]:
        """Return the causes that interrupt a job on ``workers`` workers."""
        if self.faults is None:
            copied = self.neighbour is not None
            rate = workers / self.mtbf
            return [Cause("crash", rate, 1.0, self.repair_time, leaves_copies=copied)]
        copies = self.neighbour
        return [
            replace(
                fault.cause(workers, per_node),
                # A fault of the rack may take the neighbours of the failed nodes as well.
                leaves_copies=copies is not None and not (fault.per == "rack" and copies.same_rack),
            )
            for fault in listed_faults(self.faults)
        ]

    def assumed(self) -> dict[str, float]:
        """Return the defaults (s) that the result depends on, unless the scenario sets them."""
        given = self.model_fields_set
        assumed = {} if self.faults is not None or "mtbf" in given else {"mtbf": self.mtbf}
        if self.checkpoint_cost is None and (self.asynchronous or not self.write_seconds):
            assumed["checkpoint_cost"] = _USUAL_COST
        if "restart_time" not in given:
            assumed["restart_time"] = self.restart_time
        return assumed

    @property
    def write_seconds(self) -> float:
        """The seconds to write a checkpoint; 0 if its size is not given."""
        if self.checkpoint_size is None or self.storage_rate is None:
            return 0.0
        return self.checkpoint_size / self.storage_rate

    def checkpoints(self, mtbf: float) -> Checkpoints:
        """Return the checkpoints of a job that crashes every ``mtbf`` seconds.

        The interval is the optimal one unless it is given. A checkpoint cannot begin before the
        previous one is written.
        """
        write = self.write_seconds if self.asynchronous else 0.0
        stop = self.checkpoint_cost
        if stop is None:
            # The size of an asynchronous checkpoint gives the time to write it, not how long the
            # job stops to copy it first.
            stop = _USUAL_COST if self.asynchronous else self.write_seconds or _USUAL_COST
        # A slow-down by a share costs as much as a stop for that share of the time.
        cost = stop + self.slowdown * write
        interval = self.checkpoint_interval or daly_interval(cost, mtbf)
        return Checkpoints(max(interval, write - cost), cost, write)

    def restart_seconds(self, loading: float) -> float:
        """Return the seconds from a crash until the job computes again."""
        return self.detection_time + self.restart_time + self.write_seconds + loading

    def copies(self, loading: float) -> Copies | None:
        """Return the copies in neighbours' memory, if any; ``loading`` as in `goodput_of`."""
        if self.neighbour is None:
            return None
        restart = self.detection_time + self.restart_time + self.neighbour.read_time + loading
        return Copies(self.neighbour.interval, self.neighbour.cost, restart)

    def goodput(self, workers: int, loading: float = 0.0, per_node: PerNode = 1) -> Goodput:
        """Return `goodput_of` the `causes` that interrupt a job on ``workers`` workers."""
        return self.goodput_of(self.causes(workers, per_node), workers, loading)

    def goodput_of(self, causes: Sequence[Cause], workers: int, loading: float = 0.0) -> Goodput:
        """Return the goodput of a job interrupted by ``causes``; any fault stops all workers.

        ``loading``: seconds after each restart until all workers hold the checkpoint again. Exact
        for unplanned faults that all take away the same number of workers. Of an elastic job the
        restarts when workers come back are left out.
        """
        mtbf = _mean_time([cause for cause in causes if not cause.planned])
        plan = self.plan(causes)
        restart = self.restart_seconds(loading)
        # One period is enough, because time is proportional to work and only shares are needed.
        stopped, taken = self._period(causes, plan, loading)
        planned = sum(cause.rate for cause in causes if cause.planned)
        # Seconds of stops per second of running. A planned stop need not be detected, but the job
        # continues only when the checkpoint is complete.
        stops = planned * (plan.cost + plan.write + restart - self.detection_time)
        waiting = self._missing(causes, workers) if self.elastic else self._waiting(causes)
        running = (1 - waiting) / (1 + stops)
        useful = running * plan.interval / taken
        checkpoints = running * stopped / taken
        # The remainder: work done again, restarts, and planned stops.
        lost_share = 1 - waiting - useful - checkpoints
        return Goodput(plan.interval, mtbf, useful, checkpoints, lost_share, waiting)

    def _waiting(self, causes: Sequence[Cause]) -> float:
        """Return the share of time in which the job waits for a spare."""
        # A fault that takes more workers than there are spares stops the job for its whole repair,
        # and nothing fails meanwhile: seconds of waiting are counted per second of running.
        large = [cause for cause in causes if cause.taken[0] > self.spares]
        load, size = _in_repair([cause for cause in causes if cause not in large])
        blocked = waiting_share(load, self._spare_groups(size))
        waited = blocked / (1 - blocked) + sum(cause.rate * cause.repair_time for cause in large)
        return waited / (1 + waited)

    def _missing(self, causes: Sequence[Cause], workers: int) -> float:
        """Return the share of the workers that an elastic job lacks on average."""
        load, size = _in_repair(causes)
        return min(1.0, missing_share(load, self._spare_groups(size)) * size / workers)

    def _spare_groups(self, size: float) -> int:
        """Return the spares in groups of ``size``, the unit of failure in the queueing formulas."""
        return int(self.spares // size) if size else 0

    def plan(self, causes: Sequence[Cause]) -> Checkpoints:
        """Return the checkpoints to storage, at the optimal interval unless one is given.

        With copies in neighbours' memory, checkpoints serve only the faults that destroy the
        copies.
        """
        crashes = [cause for cause in causes if not cause.planned]
        without_copies = [cause for cause in crashes if not cause.leaves_copies]
        return self.checkpoints(_mean_time(without_copies or crashes))

    def _period(
        self, causes: Sequence[Cause], plan: Checkpoints, loading: float
    ) -> tuple[float, float]:
        """Return the seconds of checkpoints and copies in a period, and the expected period (s)."""
        crashes = [cause for cause in causes if not cause.planned]
        mtbf = _mean_time(crashes)
        # A crash while a checkpoint is written returns to the one before: like a longer restart.
        lost = self.restart_seconds(loading) + plan.write
        copies = self.copies(loading)
        if copies is None:
            taken = expected_seconds(plan.interval, plan.interval, plan.cost, lost, mtbf)
            return plan.cost, taken
        segments = copies.segments(plan.interval)
        kept = sum(cause.rate for cause in crashes if cause.leaves_copies)
        taken = expected_with_copies(
            segments,
            plan.interval / segments + copies.cost,
            plan.cost,
            (max(0.0, 1 / mtbf - kept), lost),
            (kept, copies.restart),
        )
        return plan.cost + segments * copies.cost, taken


def _mean_time(causes: Sequence[Cause]) -> float:
    """Return the mean seconds between faults of any of the causes."""
    rate = sum(cause.rate for cause in causes)
    return 1 / rate if rate else _NEVER


def _in_repair(causes: Sequence[Cause]) -> tuple[float, float]:
    """Return the mean number of groups in repair, and the workers of a group.

    Groups of unequal size are treated as equal groups of their size-weighted mean, which keeps mean
    and variance of the workers in repair (Hayward's approximation; Fredericks, BSTJ 59, 1980).
    """
    loads = [cause.rate * cause.repair_time for cause in causes]
    taken = [cause.taken for cause in causes]
    mean = sum(load * workers for load, (workers, _) in zip(loads, taken, strict=True))
    square = sum(load * squared for load, (_, squared) in zip(loads, taken, strict=True))
    if not mean:
        return 0.0, 0.0
    size = square / mean
    return mean / size, size
