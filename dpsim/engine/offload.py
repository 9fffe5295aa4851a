"""What offloading costs a step: copies on the links to the host, and the update on its processors.

Each GPU has a stream of copies to it and one from it, at the rate of its way to the nearest
processor where all GPUs of the node copy at once. What comes in is asked for while the unit before
it computes; what goes out leaves while the one after it does, and a third waits. So a pass waits
where copies take longer than what is computed beside them. The links carry nothing else meanwhile:
what shares them with a network card or a drive is not modelled.

The processors' update is bound by their memory, of which DeepSpeedCPUAdam reaches 46 %: it updates
10 G parameters in 2.57 s on two Xeon 8168 of 128 GB/s each (Ren et al., "ZeRO-Offload", USENIX ATC
2021, table 4; 30 bytes a parameter). Updated weights go back beside it, part by part, and a drive
reads the state of one part while that of another is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.topology import host_copy_rates, host_memory_rates
from dpsim.workload import OPTIMIZER_STATES, WIDTH, LayerTimes, kept_by_block, update_bytes

if TYPE_CHECKING:
    from dpsim.engine.job import Job
    from dpsim.strategy.aggregation import OffloadConfig

_UPDATE_SHARE = 0.46  # of the memory's nominal rate


@dataclass(frozen=True, slots=True)
class HostRates:
    """B/s of one GPU's copies each way, of its share of the host's memory, and of the drives."""

    copies: float
    memory: float
    drives: float


@dataclass(frozen=True, slots=True)
class PassCopies:
    """Bytes by layer of one pass of one GPU: what comes in before it, what goes out after it."""

    forward_in: FloatArray
    forward_out: FloatArray
    backward_in: FloatArray
    backward_out: FloatArray
    incoming_rate: float
    outgoing_rate: float


def offloaded(job: Job) -> Job:
    """The same job with what offloading costs its workers' passes and updates.

    Raises DpsimError where the processors update, and their memory is not known.
    """
    away = job.scenario.strategy.aggregation.kept_away
    if not away.parts:
        return job
    times = tuple(
        _offloaded(job, each, _rates(job, kind, away)) for kind, each in enumerate(job.times)
    )
    return replace(job, times=times)


def _rates(job: Job, kind: int, away: OffloadConfig) -> HostRates:
    """Those of the GPUs of one kind, the slowest of them."""
    of_kind = job.kind_of == kind
    copies = float(host_copy_rates(job.cluster)[of_kind].min())
    memory = float(host_memory_rates(job.cluster)[of_kind].min())
    if away.optimizer != "none" and not memory:
        raise DpsimError(
            "strategy.aggregation.offload.optimizer: must be none on a node whose processors' "
            f"memory has no rate (capacities: cpu), but got {away.optimizer!r}"
        )
    gpus = np.bincount(job.cluster.node_of)[job.cluster.node_of][of_kind].max()
    return HostRates(copies, memory, away.nvme_rate / float(gpus))


def _offloaded(job: Job, times: LayerTimes, rates: HostRates) -> LayerTimes:
    """One kind of GPU's times, longer by what it waits for."""
    away = job.scenario.strategy.aggregation.kept_away
    usual, last = (_copies(job, rates, gradients=gradients) for gradients in (False, True))
    if job.scenario.strategy.aggregation.reduces_each_pass:
        usual = last
    forward, backward, _ = _waited(times.forward, times.backward, usual)
    _, backward_of_last, left = _waited(times.forward, times.backward, last)
    update = times.optimizer + _update(job, rates) if away.optimizer != "none" else times.optimizer
    return replace(
        times,
        forward=forward,
        backward=backward,
        merging=times.merging + backward_of_last - backward,
        # Gradients that are still on their way are waited for.
        optimizer=left + update,
    )


def _waited(
    forward: FloatArray, backward: FloatArray, copies: PassCopies
) -> tuple[FloatArray, FloatArray, float]:
    """Seconds of each layer's passes with what they wait for, and of copies left at the end."""
    seconds = np.concatenate([forward, backward[::-1]])
    coming = np.concatenate([copies.forward_in, copies.backward_in[::-1]]) / copies.incoming_rate
    going = np.concatenate([copies.forward_out, copies.backward_out[::-1]]) / copies.outgoing_rate
    longer, left = beside_copies(seconds.tolist(), coming.tolist(), going.tolist())
    layers = len(forward)
    return np.array(longer[:layers]), np.array(longer[layers:][::-1]), left


def beside_copies(
    seconds: Sequence[float], coming: Sequence[float], going: Sequence[float]
) -> tuple[list[float], float]:
    """How long parts take that wait for copies, and what copies take after the last of them.

    Part i takes ``seconds[i]``, and needs a copy of ``coming[i]`` s before and one of ``going[i]``
    s after it. A copy that comes is asked for as the part with the one before it begins; of those
    that go, two are under way or waiting at most.
    """
    now = arrived = left = asked = before = 0.0
    taken: list[float] = []
    for part, there, back in zip(seconds, coming, going, strict=True):
        begin = now
        if there:
            arrived = max(arrived, asked) + there
            begin = max(begin, arrived)
            asked = begin
        if back:
            # The copy before the last must be through, so that there is room for this one.
            begin = max(begin, before)
        end = begin + part
        if back:
            before, left = left, max(left, end) + back
        taken.append(end - now)
        now = end
    return taken, max(left - now, 0.0)


def _copies(job: Job, rates: HostRates, *, gradients: bool) -> PassCopies:
    """What one GPU copies in a pass, with its ``gradients`` or without."""
    scenario, model = job.scenario, job.model
    aggregation, workload = scenario.strategy.aggregation, scenario.workload
    away = aggregation.kept_away
    copies = aggregation.host_copies(model, scenario.strategy.peers(scenario.cluster.mesh))
    kept = np.zeros(len(model.layers))
    if away.activations != "none":
        width = float(WIDTH[workload.precision] * workload.batch_per_gpu)
        kept = width * kept_by_block(model, workload.recompute)
    return PassCopies(
        copies.forward,
        kept,
        copies.backward + kept,
        copies.gradients if gradients else 0 * kept,
        rates.copies if away.parameters != "nvme" else min(rates.copies, rates.drives),
        rates.copies,
    )


def _update(job: Job, rates: HostRates) -> float:
    """Seconds of the processors' update of one GPU's part, or of its copies or its drives."""
    scenario, model = job.scenario, job.model
    workload, away = scenario.workload, scenario.strategy.aggregation.kept_away
    mesh = scenario.strategy.peers(scenario.cluster.mesh)
    elements = scenario.strategy.aggregation.updated_part(model, mesh) * model.trained
    # In half precision the weights that the GPU reads are written too.
    width = WIDTH[workload.precision]
    kept = model.parameter_bytes
    copy = width if width < kept else 0
    moved = elements * (update_bytes(workload.optimizer, kept) + copy)
    update = moved / (_UPDATE_SHARE * rates.memory)
    # Shards that are kept in the host's memory are copied where they are gathered.
    back = elements * width / rates.copies if away.parameters == "none" else 0.0
    if away.optimizer == "cpu":
        return max(update, back)
    state = kept * (1 + OPTIMIZER_STATES[workload.optimizer])
    return max(update, back, elements * state / rates.drives)
