"""What collectives cost the layers that compute beside them.

A collective's kernels hold some of a GPU's multiprocessors and of its memory's bandwidth while they
run, so that products beside them take longer: ``contention`` seconds for each second of a
collective, or of a pass if that is shorter. Weights that are gathered are written too, and
gradients are laid out in one piece and cast before they are reduced: traffic of which the layers
know nothing. Both are spread over the layers of a pass by their seconds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.workload import LayerTimes

if TYPE_CHECKING:
    from dpsim.engine.job import Job


class CollectiveSeconds(NamedTuple):
    """Seconds of collectives that run beside each pass, forward and backward."""

    forward: FloatArray
    backward: FloatArray


def delayed(job: Job) -> Job:
    """The same job, its passes longer by what they lose to what is communicated beside them."""
    if job.silent:
        return job
    beside = collective_seconds(job)
    copied = job.scenario.strategy.aggregation.copied_bytes(job.program.passes)
    moved = [each * job.model.parameters for each in copied]
    later = replace(job, times=tuple(_delayed(times, beside, moved) for times in job.times))
    if not job.scenario.strategy.overlap.minds_times:
        vars(later)["calls_of"] = job.calls_of  # the same calls, and as long to plan as a step
    return later


def collective_seconds(job: Job) -> CollectiveSeconds:
    """How long collectives take beside each forward and each backward pass of a step."""
    program, known = job.program, dict[tuple[str, int], float]()
    found = CollectiveSeconds(np.zeros(program.passes), np.zeros(program.passes))
    ready = np.zeros(job.workers)
    for call in job.calls(0):
        # Where a call is needed as soon as it is ready, nothing computes beside it.
        if call.needed == call.ready or call.ready > program.end:
            continue
        number = program.pass_of(call.ready)
        before_turn = call.ready < program.turn(number)
        for stage in call.stages:
            if stage not in known:
                known[stage] = float(
                    job.collective(stage[0]).finish(ready, stage[1]).finishes.max()
                )
            (found.forward if before_turn else found.backward)[number] += known[stage]
    return found


def _delayed(times: LayerTimes, beside: CollectiveSeconds, moved: list[float]) -> LayerTimes:
    """One GPU's times, with what its passes lose."""
    forward, backward = float(times.forward.sum()), float(times.backward.sum())
    first = float(beside.forward.mean())
    each = float(beside.backward.min())
    last = float(beside.backward.max()) - each
    share = times.contention
    copies = [nbytes / times.copy_rate for nbytes in moved]
    longer_forward = share * min(first, forward) + copies[0]
    longer_backward = share * min(each, backward) + copies[1]
    of_backward = times.backward / backward
    merged = share * min(last, backward) * of_backward
    return replace(
        times,
        forward=times.forward * (1 + longer_forward / forward),
        backward=times.backward + longer_backward * of_backward,
        merging=times.merging + merged,
    )
