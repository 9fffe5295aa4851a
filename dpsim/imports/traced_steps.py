"""Step times and exposed communication in traces of PyTorch's profiler, of one rank or of all."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpsim.base.errors import DpsimError
from dpsim.base.files import shown_path
from dpsim.disturbance import STEPS_TO_FIT, StepLog, TimedJob
from dpsim.imports.kineto_ranks import read_ranks


def read_traced_steps(path: Path, gpus_per_node: int | None = None) -> StepLog:
    """Read the steps of a trace, or of a folder with a trace of each rank.

    A step lasts from its first kernel to the next step's, since the host may run ahead of the GPU;
    a single step lasts as long as the profiler's mark. ``exposed`` is the median over steps of the
    rank that communicates least: the collectives of the others include waiting for slower ranks.
    It is None without kernels of collectives. Raises DpsimError for traces without kernels or marks
    of steps.
    """
    traces = read_ranks(path, gpus_per_node=gpus_per_node)
    if not traces.has_gpu:
        raise DpsimError(
            f"{shown_path(path)}: must have kernels of a GPU (ProfilerActivity.CUDA), but has none"
        )
    if not traces.has_marks:
        raise DpsimError(
            f"{shown_path(path)}: must have marks of steps, but has none: give PyTorch's profiler "
            "a schedule and call step()"
        )
    exposed = float(np.median(traces.exposed.min(axis=1)))
    busy = float((traces.compute + traces.exposed).max())
    seconds = traces.periods or (max(traces.typical_rank.step_s, busy),)
    if min(seconds) <= 0:
        raise DpsimError(
            f"{shown_path(path)}: steps must begin one after the other, but one begins "
            f"{-min(seconds):.3g} s before the one that it follows"
        )
    has_calls = any(each.collectives_s for each in traces.ranks)
    numbers = [each.rank for each in traces.ranks]
    return StepLog(
        "PyTorch's profiler",
        seconds,
        single=True,
        exposed=exposed if has_calls else None,
        by_rank=TimedJob(traces.compute, numbers, list(traces.nodes))
        if len(numbers) > 1 and len(traces.compute) >= STEPS_TO_FIT
        else None,
    )
