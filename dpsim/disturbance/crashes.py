"""Crashes: a worker fails, and the job goes back to its last checkpoint.

A spare takes the worker's place if there is one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import Field, NonNegativeInt

from dpsim.base.config import Config
from dpsim.base.units import PositiveSeconds, Seconds
from dpsim.disturbance.jitter import Factors
from dpsim.disturbance.random_streams import random_streams

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Goodput:
    """Fractions of a job's time that add up to 1; ``useful`` is the goodput.

    ``interval`` (of work between checkpoints) and ``mtbf`` are in seconds.
    """

    interval: float
    mtbf: float
    useful: float
    checkpoints: float
    lost: float
    waiting: float


class CrashesConfig(Config):
    """Workers that fail, and what is done about it.

    The default time between failures is that of a GPU and what belongs to it in a large run: 419
    unexpected interruptions in 54 days on 16,384 GPUs make 50,700 hours (Dubey et al., "The Llama 3
    herd of models", 2024). Other defaults are assumptions.
    """

    mtbf: PositiveSeconds = Field(
        default=50_000 * _HOUR, description="Mean time between failures of one worker."
    )
    checkpoint_interval: PositiveSeconds | None = Field(
        default=None,
        description="Computing between checkpoints; the best by Daly's formula if left out.",
    )
    checkpoint_cost: PositiveSeconds = Field(
        default=60.0, description="How long the job stops to write one."
    )
    restart_time: Seconds = Field(
        default=300.0,
        description="From a crash until the job computes again, a worker being there.",
    )
    spares: NonNegativeInt = Field(default=0, le=1_000_000, description="Workers that stand by.")
    repair_time: Seconds = Field(
        default=0.0,
        description="Until a failed worker can stand by again; 0 where it only restarts.",
    )

    def goodput(self, workers: int, loading: float = 0.0) -> Goodput:
        """What a job on that many workers gets out of its time; any worker's crash stops all.

        ``loading`` are the seconds after each restart until all workers hold the checkpoint again.
        """
        from dpsim.disturbance.checkpoints import daly_interval, expected_seconds, waiting_share

        mtbf = self.mtbf / workers  # the first of so many independent exponential times
        interval = self.checkpoint_interval or daly_interval(self.checkpoint_cost, mtbf)
        restart = self.restart_time + loading
        taken = expected_seconds(interval, interval, self.checkpoint_cost, restart, mtbf)

        # Standing still for want of a spare comes on top of all that.
        waiting = waiting_share(self.repair_time / mtbf, self.spares)
        running = 1 - waiting
        useful = running * interval / taken
        checkpoints = running * self.checkpoint_cost / taken
        lost = running - useful - checkpoints
        return Goodput(interval, mtbf, useful, checkpoints, lost, waiting)

    def times(self, workers: int, seconds: float, seed: int) -> list[Factors]:
        """When each worker fails in that many seconds, ascending.

        The gaps are exponential, each worker's from a stream of its own.
        """
        streams = random_streams(seed, workers, "crashes")
        return [self._times(generator, seconds) for generator in streams]

    def _times(self, generator: np.random.Generator, seconds: float) -> Factors:
        found: list[float] = []
        moment = generator.exponential(self.mtbf)
        while moment < seconds:
            found.append(moment)
            moment += generator.exponential(self.mtbf)
        return np.array(found)
