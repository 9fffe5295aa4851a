"""Averages gradients by a schedule of dpsim's own, over point-to-point messages.

The schedule is that of the ring, or of any other all-reduce that dpsim knows: the very object that
the simulator times.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dpsim.collectives import algorithm
from validate.collectives import Executor
from validate.training.method import Method
from validate.training.worker import Worker


class Scheduled(Method):
    """Bulk-synchronous, each gradient averaged by an all-reduce schedule of dpsim."""

    kind: Literal["schedule"] = Field(
        default="schedule", description="Gradients are averaged by a schedule of dpsim's own."
    )
    algorithm: str = Field(
        default="ring", description="Name of the all-reduce whose schedule it is."
    )

    def run(self, worker: Worker) -> None:
        """Train; the gradient is summed by the schedule, then divided."""
        gradient = worker.replica.gradient
        schedule = algorithm(self.algorithm).schedule(worker.workers)
        executor = Executor(schedule, gradient.numel(), worker.world, gradient.dtype)
        for step in worker.steps():
            worker.learn(step)
            with worker.part("communication"):
                executor.run(gradient, gradient)
                gradient /= worker.workers
            worker.update()
        executor.close()
