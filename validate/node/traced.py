"""A run under torch's profiler: ranks train with DDP, and rank 0 writes the trace."""

from __future__ import annotations

import torch
from torch import profiler
from torch.nn.parallel import DistributedDataParallel

from dpsim.engine import Job
from validate.microbench import products_in
from validate.node.program import twin_of
from validate.node.task import ScenarioTask
from validate.ranks.processes import World

_UNTRACED, _TRACED = 2, 2  # steps: the first ones are not typical


def trace(job: Job, world: World, file: str) -> None:
    """Write the trace of some steps to ``file``."""
    # The last step before the traced ones warms up the profiler itself.
    marks = profiler.schedule(wait=_UNTRACED - 1, warmup=1, active=_TRACED)
    with products_in(job.scenario.workload.precision):
        words = job.scenario.workload.words
        task = ScenarioTask(job, twin_of(job.scenario), world.face, world.rank, words)
        model = DistributedDataParallel(task.model(0))
        optimiser = task.optimiser(list(model.parameters()))
        inputs, labels = task.batch(torch.empty(0))
        with profiler.profile(schedule=marks, record_shapes=True) as recorded:
            for _ in range(_UNTRACED + _TRACED):
                optimiser.zero_grad()
                task.loss(model, inputs, labels).backward()
                optimiser.step()
                recorded.step()
    if world.rank == 0:
        recorded.export_chrome_trace(file)
    world.barrier()
