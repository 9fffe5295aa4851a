"""Workers that act together: under BSP all-reduce the state of all of them is a vector of clock times, moved once per operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpsim.engine.job import Job
from dpsim.topology.network import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Seconds per step and worker, arrays of shape (steps, workers); ``compute + exposed_comm + straggler_wait`` is the step."""

    compute: FloatArray
    exposed_comm: FloatArray
    straggler_wait: FloatArray
    overlapped_comm: FloatArray

    @property
    def step(self) -> FloatArray:
        """Seconds of each whole step."""
        return self.compute + self.exposed_comm + self.straggler_wait


def run_together(job: Job, factors: FloatArray, progress: Callable[[int], None]) -> Steps:
    """Simulate one step per row of ``factors`` (steps, workers), which multiply each worker's compute time.

    ``progress`` is called with the number of steps done after each of them.
    """
    records = Steps(*(np.zeros_like(factors) for _ in range(4)))
    clock = np.zeros(job.workers)
    for step, factor in enumerate(factors):
        clock = _step(job, factor, clock, records, step)
        progress(step + 1)
    return records


def _step(job: Job, factor: FloatArray, clock: FloatArray, records: Steps, step: int) -> FloatArray:
    """Run one step that each worker starts at ``clock``; records its parts and returns when each worker ends it."""
    done = job.backward_done()
    backward_end = clock + factor * done[0]
    free, busy = clock, 0.0
    for operation in job.plan:
        starts = np.maximum(clock + factor * done[operation.after], free)
        free = job.collective.finish(starts, operation.nbytes).finishes
        busy += float(free.max() - starts.max())
    exposed = np.maximum(free, backward_end) - backward_end
    # Until the last worker has computed its gradients, waiting is its fault; what comes after that is the network's.
    waits = np.minimum(backward_end.max() - backward_end, exposed)
    records.compute[step] = factor * (done[0] + job.times.optimizer)
    records.straggler_wait[step] = waits
    records.exposed_comm[step] = exposed - waits
    records.overlapped_comm[step] = np.maximum(busy - (exposed - waits), 0.0)
    return np.asarray(backward_end + exposed + factor * job.times.optimizer)
