"""Slowdown of computing by overlapped communication, which uses the GPU's memory bandwidth.

A collective's kernels read and write the memory of each GPU, several bytes for each byte of the
payload. Gathered weights are copied to where they are used; gradients are cast and copied into one
buffer before they are reduced. The layers' times do not include this traffic, and matrix products
that run at the same time get that much less memory bandwidth. The slowdown is spread over the
layers of a pass in proportion to their times.
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

# An all-reduce moves as much as a reduce-scatter and an all-gather together.
_TWICE = ("all-reduce",)


class PassBytes(NamedTuple):
    """Bytes of payload communicated during each pass, forward and backward."""

    forward: FloatArray
    backward: FloatArray


def delayed(job: Job) -> Job:
    """Return ``job`` with passes slowed down by the communication that overlaps them."""
    if job.silent:
        return job
    overlapped = overlapped_bytes(job)
    moved = job.scenario.strategy.aggregation.copied_bytes(job.model)
    slower = replace(job, times=tuple(_delayed(times, overlapped, moved) for times in job.times))
    if not job.scenario.strategy.overlap.needs_times:
        vars(slower)["calls_of"] = job.calls_of  # planning takes as long as a step
    return slower


def seconds_lost(job: Job) -> FloatArray:
    """Return the seconds of a step's computing that each kind of GPU loses to communication."""
    if job.silent:
        return np.zeros(len(job.times))
    found = overlapped_bytes(job)
    rates = np.array([times.wire_traffic / times.memory_rate for times in job.times])
    return np.asarray(rates * float(found.forward.sum() + found.backward.sum()))


def overlapping_calls(job: Job) -> Iterator[StagedCall]:
    """Return the calls of a step that can overlap with computing.

    A call that is needed as soon as it is ready overlaps with nothing.
    """
    end = job.program.end
    return (call for call in job.calls(0) if call.needed != call.ready and call.ready <= end)


def overlapped_bytes(job: Job) -> PassBytes:
    """Return the bytes communicated during each forward and each backward pass of a step."""
    program = job.program
    found = PassBytes(np.zeros(program.passes), np.zeros(program.passes))
    for call in overlapping_calls(job):
        number = program.pass_of(call.ready)
        passes = found.forward if call.ready < program.turn(number) else found.backward
        for collective, nbytes in call.stages:
            passes[number] += nbytes * (2 if collective.startswith(_TWICE) else 1)
    return found


def _delayed(times: LayerTimes, overlapped: PassBytes, copied: tuple[float, float]) -> LayerTimes:
    """Return one GPU's times with its passes slowed down."""
    # Weights may be gathered during every pass, but gradients reduced only during the last. The
    # difference is added to ``merging``, which counts in the last pass only.
    each = float(overlapped.backward.min())
    last = float(overlapped.backward.max()) - each
    per_byte_sent = times.wire_traffic / times.memory_rate
    copies = times.copy_traffic / times.memory_rate
    longer_forward = per_byte_sent * float(overlapped.forward.mean()) + copies * copied[0]
    longer_backward = per_byte_sent * each + copies * copied[1]
    share = times.backward / times.backward.sum()
    return replace(
        times,
        forward=times.forward * (1 + longer_forward / times.forward.sum()),
        backward=times.backward + longer_backward * share,
        merging=times.merging + per_byte_sent * last * share,
    )
