"""Adjust a job's steps by the step constants of a calibration.

With ``g`` GPUs in a node, a pass whose kernels take P s on the GPU takes

    ((compute (1 + crowding (g - 1)) P)^n + (host (1 + host_crowding (g - 1)))^n)^(1/n),   n = 1.45,

because the host's work partly overlaps with the GPU's. The bytes of collectives take ``inside``
times as long inside a node, and ``between`` (N / 2)^decay times between N nodes, on exactly two
nodes ``two_nodes`` times that. B seconds of communication during the last backward pass delay
computing by (1 - overlap) B.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpsim.engine.job import Job
from dpsim.engine.memory_contention import overlapping_calls
from dpsim.engine.refit import Constants, RefittedModel
from dpsim.hardware import StepConstants
from dpsim.workload import LayerTimes

# n, fitted to small clusters' steps: host and GPU work partly in parallel.
_NORM = 1.45


def adjusted(job: Job, constants: StepConstants) -> Job:
    """Return ``job`` with the step constants of its cluster applied."""
    others = max(job.workers_of_nodes) - 1
    compute = constants.compute * (1 + constants.crowding * others)
    host = constants.host * (1 + constants.host_crowding * others)
    times = tuple(_with_host(each, compute, host) for each in job.times)
    nodes = np.count_nonzero(job.workers_of_nodes)
    # The factor on the time that bytes take.
    factor = constants.inside
    if nodes > 1:
        factor = float(constants.between * (nodes / 2) ** constants.decay)
    if nodes == 2:
        factor *= constants.two_nodes
    found = replace(job, times=times)
    if factor != 1:
        slower = Constants(0.0, 1.0, factor)
        collectives = {
            name: tuple(RefittedModel(model, slower) for model in turns)
            for name, turns in job.collectives.items()
        }
        found = replace(found, collectives=collectives)
    return found if job.silent or constants.overlap == 1 else _delayed(found, constants.overlap)


def _with_host(times: LayerTimes, compute: float, host: float) -> LayerTimes:
    """Return a GPU's times including the host's share of each pass."""
    on_gpu = compute * times.one_pass
    factor = compute * (1 + (host / on_gpu) ** _NORM) ** (1 / _NORM)
    return replace(
        times,
        forward=times.forward * factor,
        backward=times.backward * factor,
        merging=times.merging * compute,
        optimizer=times.optimizer * compute,
    )


def _delayed(job: Job, overlap: float) -> Job:
    """Return the job with its last backward pass delayed by overlapped communication."""
    overlapped = sum(
        job.collective_seconds(name, nbytes)
        for call in overlapping_calls(job)
        for name, nbytes in call.stages
    )
    times = []
    for each in job.times:
        backward = float(each.backward.sum())
        lost = (1 - overlap) * min(overlapped, backward)
        times.append(replace(each, merging=each.merging + lost * each.backward / backward))
    return replace(job, times=tuple(times))
