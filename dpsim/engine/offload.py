"""The cost of offloading: copies over the links to the host, and the update on its processors.

Each GPU has a stream of copies to it and one from it, at the rate of its path to the nearest
processor when all GPUs of the node copy at once. A unit's data is fetched while the unit before it
computes, and copied out while the next one computes, with at most two copies under way or waiting.
A pass therefore waits if copies take longer than the computing that they overlap with. Other
traffic on the same links, of a network card or a drive, is not modelled.

The processors' update is bound by their memory, of which DeepSpeedCPUAdam reaches 46 %: it updates
10 G parameters in 2.57 s on two Xeon 8168 of 128 GB/s each (Ren et al., "ZeRO-Offload", USENIX ATC
2021, table 4; 30 bytes a parameter). Updated weights are copied back during the update, part by
part, and a drive reads the state of one part while that of another is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.topology import host_copy_rates, host_memory_rates
from dpsim.workload import WIDTH, LayerTimes, kept_by_block, optimizer_state_bytes, update_bytes

if TYPE_CHECKING:
    from dpsim.engine.job import Job
    from dpsim.strategy.aggregation import OffloadConfig

_UPDATE_SHARE = 0.46  # share of the memory's nominal rate


@dataclass(frozen=True, slots=True)
class HostRates:
    """Rates in B/s of one GPU's copies each way, of its share of host memory, and of the drives."""

    copies: float
    memory: float
    drives: float


def offloaded(job: Job) -> Job:
    """Return ``job`` with the cost of offloading in its workers' passes and updates.

    Raises DpsimError if host processors take the update and their memory's rate is not known.
    """
    offloading = job.scenario.strategy.aggregation.offloading
    times = tuple(
        _offloaded(job, each, _rates(job, kind, offloading)) for kind, each in enumerate(job.times)
    )
    return replace(job, times=times)


def _rates(job: Job, kind: int, offloading: OffloadConfig) -> HostRates:
    """Return the rates of the GPUs of one kind, taken from the slowest of them."""
    of_kind = job.kind_of == kind
    copies = float(host_copy_rates(job.cluster)[of_kind].min())
    memory = float(host_memory_rates(job.cluster)[of_kind].min())
    if offloading.optimizer != "none" and not memory:
        raise DpsimError(
            "strategy.aggregation.offload.optimizer: must be none on a node whose processors' "
            f"memory has no rate (capacities: cpu), but got {offloading.optimizer!r}"
        )
    gpus = np.bincount(job.cluster.node_of)[job.cluster.node_of][of_kind].max()
    return HostRates(copies, memory, offloading.nvme_rate / float(gpus))


def _offloaded(job: Job, times: LayerTimes, rates: HostRates) -> LayerTimes:
    """Return the times of one kind of GPU, including waits for copies."""
    offloading = job.scenario.strategy.aggregation.offloading
    usual, last = (
        _with_waits(times, *_copies(job, rates, gradients=gradients)) for gradients in (False, True)
    )
    if job.scenario.strategy.aggregation.reduces_each_pass:
        usual = last
    forward, backward, _ = usual
    _, backward_of_last, left = last
    update = (
        times.optimizer + _update(job, rates) if offloading.optimizer != "none" else times.optimizer
    )
    return replace(
        times,
        forward=forward,
        backward=backward,
        merging=times.merging + backward_of_last - backward,
        # The update waits for gradients that are still being copied.
        optimizer=left + update,
    )


def _with_waits(
    times: LayerTimes, coming: FloatArray, going: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Return each layer's seconds in both passes including waits, and the copy time left after."""
    seconds = np.concatenate([times.forward, times.backward[::-1]])
    longer, left = overlap_copies(seconds.tolist(), coming.tolist(), going.tolist())
    layers = len(times.forward)
    return np.array(longer[:layers]), np.array(longer[layers:][::-1]), left


def overlap_copies(
    seconds: Sequence[float], coming: Sequence[float], going: Sequence[float]
) -> tuple[list[float], float]:
    """Return the times of parts that wait for copies, and the copy time left after the last part.

    Part i takes ``seconds[i]``, with a copy of ``coming[i]`` s before and one of ``going[i]`` s
    after it. An incoming copy starts when the previous part with one begins; at most two outgoing
    copies are under way or waiting.
    """
    now = arrived = left = requested = before = 0.0
    taken: list[float] = []
    for part, copy_in, copy_out in zip(seconds, coming, going, strict=True):
        begin = now
        if copy_in:
            arrived = max(arrived, requested) + copy_in
            begin = max(begin, arrived)
            requested = begin
        if copy_out:
            # The copy before the last one must have finished, to make room for this one.
            begin = max(begin, before)
        end = begin + part
        if copy_out:
            before, left = left, max(left, end) + copy_out
        taken.append(end - now)
        now = end
    return taken, max(left - now, 0.0)


def _copies(job: Job, rates: HostRates, *, gradients: bool) -> tuple[FloatArray, FloatArray]:
    """Return the seconds of one GPU's copies before and after each layer, in a pass's order.

    ``gradients``: whether they are copied out.
    """
    scenario, model = job.scenario, job.model
    aggregation, workload = scenario.strategy.aggregation, scenario.workload
    offloading = aggregation.offloading
    copies = aggregation.host_copies(model, scenario.strategy.peers(scenario.cluster.mesh))
    kept = np.zeros(len(model.layers))
    if offloading.activations != "none":
        width = float(WIDTH[workload.precision] * workload.batch_per_gpu)
        kept = width * kept_by_block(model, workload.recompute)
    incoming = rates.copies if offloading.parameters != "nvme" else min(rates.copies, rates.drives)
    coming = np.concatenate([copies.forward, (copies.backward + kept)[::-1]])
    out = copies.gradients if gradients else np.zeros_like(kept)
    going = np.concatenate([kept, out[::-1]])
    return coming / incoming, going / rates.copies


def _update(job: Job, rates: HostRates) -> float:
    """Return the time of one GPU's update: the slowest of the processors, copies and drives (s)."""
    scenario, model = job.scenario, job.model
    workload, offloading = scenario.workload, scenario.strategy.aggregation.offloading
    mesh = scenario.strategy.peers(scenario.cluster.mesh)
    elements = scenario.strategy.aggregation.updated_part(model, mesh) * model.trained
    # In half precision, the copy of the weights for the GPU is written too.
    width = WIDTH[workload.precision]
    kept = model.parameter_bytes
    copy = width if width < kept else 0
    moved = elements * (update_bytes(workload.optimizer, kept) + copy)
    update = moved / (_UPDATE_SHARE * rates.memory)
    # Weights that stay in the host's memory are copied when they are gathered.
    back = elements * width / rates.copies if offloading.parameters == "none" else 0.0
    if offloading.optimizer == "cpu":
        return max(update, back)
    state = kept + optimizer_state_bytes(workload.optimizer, kept)
    return max(update, back, elements * state / rates.drives)
