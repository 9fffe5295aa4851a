"""What a run keeps beside its steps, so that it can be asked for it later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsim.base.errors import DpsimError
from dpsim.engine.job import Job

if TYPE_CHECKING:
    from dpsim.engine.log import Log
    from dpsim.engine.timeline import Timeline

_MOST_INTERVALS = 4_000_000  # of all steps together, where as many are asked for as have room
_INTERVALS_OF_A_STEP = 5  # of a worker, beside its collectives: input, passes, update, decoding
_INTERVALS_OF_A_COLLECTIVE = 4  # computing until it is ready, encoding, its collective, waiting


@dataclass(frozen=True, slots=True)
class Recording:
    """Which steps' intervals to keep, and whether to log who read and gave which version.

    ``steps``: so many from step ``first`` on, those that there are; None for as many as there is
    room for. Step 0 is the first after warm-up. ``workers``: the first so many; None for all.
    """

    steps: int | None = 0
    first: int = 0
    workers: int | None = None
    versions: bool = False

    def timeline(self, job: Job) -> Timeline | None:
        """What collects the intervals of ``job``; None where none are to be kept.

        Raises DpsimError where ``first`` is not simulated.
        """
        if self.steps == 0:
            return None
        steps = job.counted
        if not 0 <= self.first < len(steps):
            raise DpsimError(f"step must be from 0 to {len(steps) - 1}, but got {self.first}")
        from dpsim.engine.timeline import Timeline

        workers = job.workers if self.workers is None else min(self.workers, job.workers)
        kept = _room(job, workers) if self.steps is None else self.steps
        return Timeline(steps[self.first : self.first + kept], workers)

    def log(self) -> Log | None:
        """What collects the versions, where they are to be kept."""
        if not self.versions:
            return None
        from dpsim.engine.log import Log

        return Log()


def _room(job: Job, workers: int) -> int:
    """How many steps may be kept: at least one, and all of them but for the largest clusters."""
    # Steps may send unlike amounts: as many as the one that sends most.
    collectives = max(sum(len(call.stages) for call in calls) for calls in job.calls_of.values())
    each = _INTERVALS_OF_A_STEP + _INTERVALS_OF_A_COLLECTIVE * collectives
    return max(1, _MOST_INTERVALS // (workers * each))
