"""What communication costs the layers that compute beside it: traffic in the GPU's own memory.

A collective's kernels read and write the memory of each GPU on their way, several bytes for each
byte of the payload. Weights that are gathered are written once more where they are used; gradients
are laid out in one piece, and cast, before they are reduced. Of all that the layers know nothing,
and products beside it get so much less of the memory. It is spread over the layers of a pass by
their seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.workload import LayerTimes

if TYPE_CHECKING:
    from dpsim.engine.calls import StagedCall
    from dpsim.engine.job import Job

# An all-reduce moves what a reduce-scatter and an all-gather move.
_TWICE = ("all-reduce",)


class PassBytes(NamedTuple):
    """Bytes of payload that are communicated beside each pass, forward and backward."""

    forward: FloatArray
    backward: FloatArray


def delayed(job: Job) -> Job:
    """The same job, its passes longer by what they lose to what is communicated beside them."""
    if job.silent:
        return job
    overlapped = overlapped_bytes(job)
    moved = job.scenario.strategy.aggregation.copied_bytes(job.model)
    later = replace(job, times=tuple(_delayed(times, overlapped, moved) for times in job.times))
    if not job.scenario.strategy.overlap.minds_times:
        vars(later)["calls_of"] = job.calls_of  # the same calls, and as long to plan as a step
    return later


def seconds_lost(job: Job) -> FloatArray:
    """Seconds of a step's computing that each kind of GPU loses to what is sent beside it."""
    if job.silent:
        return np.zeros(len(job.times))
    found = overlapped_bytes(job)
    rates = np.array([times.wire_traffic / times.memory_rate for times in job.times])
    return np.asarray(rates * float(found.forward.sum() + found.backward.sum()))


def calls_beside(job: Job) -> Iterator[StagedCall]:
    """The calls of a step that computing can go on beside.

    Where a call is needed as soon as it is ready, nothing computes beside it.
    """
    end = job.program.end
    return (call for call in job.calls(0) if call.needed != call.ready and call.ready <= end)


def overlapped_bytes(job: Job) -> PassBytes:
    """What is communicated beside each forward and each backward pass of a step."""
    program = job.program
    found = PassBytes(np.zeros(program.passes), np.zeros(program.passes))
    for call in calls_beside(job):
        number = program.pass_of(call.ready)
        passes = found.forward if call.ready < program.turn(number) else found.backward
        for collective, nbytes in call.stages:
            passes[number] += nbytes * (2 if collective.startswith(_TWICE) else 1)
    return found


def _delayed(times: LayerTimes, overlapped: PassBytes, copied: tuple[float, float]) -> LayerTimes:
    """One GPU's times, with what its passes lose."""
    # Weights may be gathered beside every pass, gradients beside the last alone: what that one has
    # more is paid where a step's gradients are merged, in its last pass.
    each = float(overlapped.backward.min())
    last = float(overlapped.backward.max()) - each
    per_byte_sent = times.wire_traffic / times.memory_rate
    copies = times.copy_traffic / times.memory_rate
    longer_forward = per_byte_sent * float(overlapped.forward.mean()) + copies * copied[0]
    longer_backward = per_byte_sent * each + copies * copied[1]
    of_backward = times.backward / times.backward.sum()
    return replace(
        times,
        forward=times.forward * (1 + longer_forward / times.forward.sum()),
        backward=times.backward + longer_backward * of_backward,
        merging=times.merging + per_byte_sent * last * of_backward,
    )
