"""One rank of a run that torch's profiler follows: ``python -m validate.gpu_plan.traced CASE``.

Two of them share a device, since a rank alone sends nothing: `dpsim advise` asks a trace what
sending takes.
"""

from __future__ import annotations

import json
import sys

import torch
from torch import profiler
from torch.nn.parallel import DistributedDataParallel

from validate.emulate import Case
from validate.microbench import products_in
from validate.node import ScenarioTask, twin_of
from validate.ranks.launch import connected
from validate.ranks.processes import joined

_UNTRACED, _TRACED = 2, 2  # steps: the first ones are not like others


def as_rank(file: str, sets: list[str], device: str, trace: str) -> None:
    """Train under DDP; rank 0 writes the trace."""
    # The last step before those that are traced warms up the profiler itself.
    marks = profiler.schedule(wait=_UNTRACED - 1, warmup=1, active=_TRACED)
    with joined("gloo", device) as world:
        connected()
        job = Case(file, tuple(sets)).job()
        with products_in(job.scenario.workload.precision):
            task = ScenarioTask(job, twin_of(job.scenario), world.face, world.rank)
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
            recorded.export_chrome_trace(trace)
        world.barrier()


if __name__ == "__main__":
    as_rank(*json.loads(sys.argv[1]))
