"""Layer parallelism: splitting a model by layers instead of its batch.

Each device holds consecutive layers, and a batch passes all devices. Naive: one device works at a
time. Pipelined (GPipe): k micro-batches follow one another, all forward, then all backward; then
each device updates its weights. With p equal stages and free transfers the devices are idle for (p
- 1) / (k + p - 1) of the step, (k + p - 1) (f + b). Activations and gradients are sent over the
route between neighbouring devices, overlapped with the passes, one micro-batch at a time; routes do
not share links. All activations are kept until their backward pass. Weights that two stages share
(a tied output layer) are not exchanged. Source: Huang et al., "GPipe", NeurIPS 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.engine import MemoryUse, learner_times, memory_use, simulate
from dpsim.scenario import Scenario
from dpsim.topology import ClusterConfig, build_cluster
from dpsim.workload import MOST_SAMPLES, WIDTH, Model


@dataclass(frozen=True, slots=True)
class Stage:
    """The layers ``first`` to ``end`` (exclusive) on one device.

    With the seconds of a micro-batch's passes and of the update, and the memory (B). ``sent`` is
    the bytes of a micro-batch's activations for the next stage, and of its gradients; 0 for the
    last stage.
    """

    first: int
    end: int
    forward: float
    backward: float
    update: float
    sent: float
    memory: MemoryUse


@dataclass(frozen=True, slots=True)
class Hop:
    """The route from one device to the next: ``latency`` (s) and ``rate`` (B/s)."""

    latency: float
    rate: float


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """The times of a step: the end of each micro-batch on each stage, and of all updates.

    ``forward`` and ``backward`` have shape (stages, micro-batches).
    """

    forward: FloatArray
    backward: FloatArray
    step: float


@dataclass(frozen=True, slots=True)
class LayerSplit:
    """A model split over devices: its stages, and a step of ``micro_batches``."""

    stages: tuple[Stage, ...]
    micro_batches: int
    pipeline: Pipeline

    @property
    def idle(self) -> float:
        """The share of the devices' time in which they are idle."""
        busy = sum(
            self.micro_batches * (stage.forward + stage.backward) + stage.update
            for stage in self.stages
        )
        # Rounding may give slightly less than 0.
        return max(0.0, 1 - busy / (len(self.stages) * self.pipeline.step))

    @property
    def bytes_sent(self) -> float:
        """The bytes that all devices send in a step, in both directions."""
        return 2 * self.micro_batches * sum(stage.sent for stage in self.stages)

    @property
    def memory(self) -> MemoryUse:
        """The memory of the fullest device."""
        return max((stage.memory for stage in self.stages), key=lambda use: use.held.total)


def balance(seconds: FloatArray, parts: int) -> list[int]:
    """Cut a sequence of work into ``parts`` runs so that the longest is as short as possible.

    Return the end of each run. Raises DpsimError if there are fewer pieces than parts.
    """
    if parts > len(seconds):
        raise DpsimError(
            f"devices: must be at most the {len(seconds)} blocks of the model, but got {parts}"
        )
    # By dynamic programming, the best k runs over the first j pieces are the best k - 1 runs over
    # the first i and a run from i to j, of before[j] - before[i], for the best i.
    before = np.concatenate([[0.0], np.cumsum(seconds)])
    longest = before.copy()  # of the first j pieces in one run
    cuts = []
    for run in range(1, parts):
        # options[j, i]: the longest run if the last one goes from piece i to piece j.
        options = np.maximum(longest[None, :], before[:, None] - before[None, :])
        options[np.triu_indices(len(before))] = np.inf  # no run is empty
        options[:, :run] = np.inf  # the previous runs need at least a piece each
        cuts.append(options.argmin(axis=1))
        longest = options.min(axis=1)
    ends = [len(seconds)]
    # Backtrack: each table of cuts has the begin of the run that ends at an index.
    for cut in reversed(cuts):
        ends.insert(0, int(cut[ends[0]]))
    return ends


def time_step(stages: Sequence[Stage], hops: Sequence[Hop], micro_batches: int) -> Pipeline:
    """Time a step of ``micro_batches``; ``hops`` lead from each of ``stages`` to the next."""
    transfers = [(hop, stage.sent) for hop, stage in zip(hops, stages[:-1], strict=True)]
    forward = _pass(
        [stage.forward for stage in stages], transfers, np.zeros(len(stages)), micro_batches
    )
    # Backward starts at the last stage, on each stage after its last forward pass.
    backwards = [stage.backward for stage in reversed(stages)]
    backward = _pass(backwards, transfers[::-1], forward[::-1, -1], micro_batches)[::-1]
    ends = backward[:, -1]
    step = max(float(end) + stage.update for end, stage in zip(ends, stages, strict=True))
    return Pipeline(forward, backward, step)


def _pass(
    seconds: Sequence[float],
    transfers: Sequence[tuple[Hop, float]],
    free: FloatArray,
    micro_batches: int,
) -> FloatArray:
    """Return when each stage ends each micro-batch; a stage starts at ``free`` at the earliest.

    A stage processes micro-batches in the order in which they arrive from the previous stage.
    """
    ends = np.zeros((len(seconds), micro_batches))
    arrived = np.zeros(micro_batches)
    for stage, each in enumerate(seconds):
        end = float(free[stage])
        for number, arrival in enumerate(arrived):
            end = ends[stage, number] = max(end, float(arrival)) + each
        if stage < len(transfers):
            arrived = _arrivals(ends[stage], *transfers[stage])
    return ends


def _arrivals(ready: FloatArray, hop: Hop, nbytes: float) -> FloatArray:
    """Return when messages of ``nbytes``, ready at ``ready``, arrive over ``hop`` in turn."""
    # Latency does not occupy the link.
    free = 0.0
    arrived = np.zeros(len(ready))
    for number, arrival in enumerate(ready):
        free = max(free, float(arrival)) + nbytes / hop.rate
        arrived[number] = free + hop.latency
    return arrived


def on_devices(scenario: Scenario, devices: int) -> Scenario:
    """Put the scenario's global batch on ``devices``, in one pass, without disturbance.

    Raises DpsimError for more devices than the cluster has, for partly used or unequal nodes, and
    if the batch does not divide.
    """
    config, batch = scenario.cluster, scenario.global_batch
    if scenario.calibration != "catalogue":
        raise DpsimError(
            "calibration: must be catalogue here, since the batch differs from the measured one"
        )

    if config.groups:
        raise DpsimError(
            "cluster.groups: must be left out here: the layers are split over equal devices"
        )

    if not 1 <= devices <= config.ranks:
        raise DpsimError(
            f"devices: must be from 1 to the cluster's {config.ranks}, but got {devices}"
        )
    _check_divides("devices", batch, devices)
    if batch // devices > MOST_SAMPLES:
        raise DpsimError(
            f"devices: must leave each at most {MOST_SAMPLES:,} samples a step, but {devices} "
            f"leave {batch // devices:,}"
        )

    # The data-parallel step with which the split is compared.
    changes = {
        "batch_per_gpu": batch // devices,
        "global_batch": None,
        "gradient_accumulation": 1,
        "learners_per_gpu": 1,
        "utilisation": (),
    }
    plain = {
        "cluster": _first_devices(config, devices),
        "testbed": None,
        "workload": {**dict(scenario.workload), **changes},
        "disturbance": {},
        # Splits are for models that do not fit on one device.
        "run": {**dict(scenario.run), "allow_out_of_memory": True},
    }
    return Scenario.model_validate({**dict(scenario), **plain})


def _first_devices(config: ClusterConfig, devices: int) -> ClusterConfig:
    """Return a cluster of equal nodes with only ``devices`` of its devices."""
    per_node = config.ranks // config.nodes
    if devices > per_node and devices % per_node:
        raise DpsimError(f"devices: must fill nodes of {per_node}, but got {devices}")
    used = min(devices, per_node)
    return ClusterConfig.model_validate(
        {**dict(config.with_nodes(devices // used)), "gpus_per_node": used}
    )


def _check_divides(what: str, batch: int, parts: int) -> None:
    if parts < 1 or batch % parts:
        raise DpsimError(f"{what}: must divide the global batch of {batch}, but got {parts}")


def layer_split(scenario: Scenario, devices: int, micro_batches: int) -> LayerSplit:
    """Split the scenario's model over ``devices`` of its cluster.

    The global batch is divided into ``micro_batches``. Cuts are between blocks, and balance time
    best. Raises DpsimError like `on_devices`.
    """
    on_one_node = on_devices(scenario, devices)
    _check_divides("micro-batches", scenario.global_batch, micro_batches)
    stages = _stages(on_one_node, devices, scenario.global_batch, micro_batches)
    cluster = build_cluster(on_one_node.cluster)
    ranks = np.arange(devices)
    routes = cluster.routes(ranks[:-1], ranks[1:])
    capacities = np.append(cluster.capacities, np.inf)  # the last for -1, no link
    # routes.links has shape (hops between devices, links of a route), padded with -1.
    rates = capacities[routes.links].min(axis=1, initial=np.inf)
    hops = [
        Hop(float(latency), float(rate))
        for latency, rate in zip(routes.latency, rates, strict=True)
    ]
    return LayerSplit(stages, micro_batches, time_step(stages, hops, micro_batches))


def _stages(scenario: Scenario, devices: int, batch: int, micro_batches: int) -> tuple[Stage, ...]:
    model, gpu = scenario.build_model(), scenario.cluster.accelerator
    timed = partial(learner_times, scenario, model, gpu, batch // micro_batches)
    times = timed()
    # Cut between blocks, where one tensor crosses; inside a block residuals or branches cross too.
    blocks = model.blocks
    passes = times.forward + times.backward
    work = np.array([passes[first:end].sum() for first, end in blocks])
    borders = [0, *(blocks[end - 1][1] for end in balance(work, devices))]
    weights = np.array([layer.trained_weights for layer in model.layers], dtype=np.float64)

    # Bytes per activation element of a sample, for a whole micro-batch.
    width = WIDTH[scenario.workload.precision] * batch // micro_batches
    return tuple(
        Stage(
            first,
            end,
            float(times.forward[first:end].sum()),
            float(times.backward[first:end].sum()),
            timed(updated=float(weights[first:end].sum() / max(weights.sum(), 1.0))).optimizer,
            float(width * _crossing(model, end)) if end < len(model.layers) else 0.0,
            _memory(scenario, model, first, end, batch),
        )
        for first, end in pairwise(borders)
    )


def _crossing(model: Model, cut: int) -> int:
    """Return the elements per sample that cross a cut: the last stored tensor before it."""
    # In-place layers store nothing.
    return next(
        (layer.activations for layer in reversed(model.layers[:cut]) if layer.activations), 0
    )


def _memory(scenario: Scenario, model: Model, first: int, end: int, batch: int) -> MemoryUse:
    """Return the memory of a device with these layers and the activations of the whole batch."""
    part = replace(model, layers=model.layers[first:end], measured=None)
    use = memory_use(scenario, part)
    # GPipe runs all forward passes first, so the whole batch's activations are held.
    return use.changed(batch=batch, workers=1, stage=0)


@dataclass(frozen=True, slots=True)
class Arrangement:
    """An arrangement to train a global batch on ``devices`` GPUs, and its step.

    ``micro_batches`` is the number for a model split by layers, None for data parallelism. ``idle``
    is the share of the GPUs' time without computing. ``bytes_sent`` is the total of all GPUs.
    ``memory`` is of the fullest GPU.
    """

    devices: int
    micro_batches: int | None
    global_batch: int
    step_time_s: float
    idle: float
    bytes_sent: float
    memory: MemoryUse

    @property
    def way(self) -> str:
        """The name of the split: by data or by layers."""
        return "data-parallel" if self.micro_batches is None else "layer-split"

    @property
    def throughput_samples_per_s(self) -> float:
        """The samples per second of all GPUs together."""
        return self.global_batch / self.step_time_s

    def to_json(self) -> dict[str, Any]:
        """Return a row of ``dpsim layer-split --json``."""
        return {
            "devices": self.devices,
            "way": self.way,
            "micro_batches": self.micro_batches,
            "step_time_s": self.step_time_s,
            "throughput_samples_per_s": self.throughput_samples_per_s,
            "idle": self.idle,
            "bytes_sent_total": round(self.bytes_sent),
            "memory_bytes": self.memory.held.total,
            "fits": self.memory.fits,
        }


def arrangements(
    scenario: Scenario, devices: int, micro_batches: Sequence[int]
) -> list[Arrangement]:
    """Simulate data parallelism on ``devices`` GPUs, then layer splits by micro-batches.

    Raises DpsimError if the global batch or the model cannot be divided like this.
    """
    batch = scenario.global_batch
    result = simulate(on_devices(scenario, devices))
    # Only tests have results without memory.
    assert result.memory is not None
    step = result.step_time_s["mean"]
    # Everything but computing, as in `LayerSplit.idle`.
    idle = max(0.0, 1 - result.parts_s["compute"] / step)
    sent = result.traffic.sent_in_total
    listed = [Arrangement(devices, None, batch, step, idle, sent, result.memory)]
    for count in micro_batches:
        split = layer_split(scenario, devices, count)
        step = split.pipeline.step
        listed.append(
            Arrangement(devices, count, batch, step, split.idle, split.bytes_sent, split.memory)
        )
    return listed
