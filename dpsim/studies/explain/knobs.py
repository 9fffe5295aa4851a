"""All knobs of a scenario by name: of hardware, software and strategy."""

from __future__ import annotations

from typing import Any

from dpsim.base.kinds import kinds_of
from dpsim.base.registry import Registry
from dpsim.base.units import DATA, POWER, RATE, SPEED, exact
from dpsim.hardware import Gpu
from dpsim.network.libraries import chooses
from dpsim.scenario import Scenario
from dpsim.strategy.overlap import OverlapConfig
from dpsim.studies.explain.batch_knobs import accumulation, batch, checkpoint, passes
from dpsim.studies.explain.knob import Change, Knob, Options
from dpsim.studies.explain.network_knobs import (
    SOURCE,
    latency,
    network_bandwidth,
    node_bandwidth,
    of_each,
)
from dpsim.studies.explain.strategy_knobs import averaging, codec, library, sharding

_BUCKETS = (0.25, 0.5, 2.0, 4.0, 8.0)
_MEBI = 2.0**20
_IN_MEMORY = "samples wait in GPU memory"
_MEASURED = "compute times were measured, by whatever software"
_FUSED = ("fused", "sharded")


def _gpu_speed(scenario: Scenario) -> Options:
    """Double the figures of the GPUs; if compute times were measured, halve those times."""
    if _is_measured(scenario):
        # Measured times have no GPU figures to double, so make all workers "slow" by a factor of
        # one half.
        slow: list[Any] = [
            entry.model_dump(mode="json", exclude_unset=True) for entry in scenario.disturbance.slow
        ]
        values: dict[str, Any] = {"disturbance.slow": [*slow, {"fraction": 1.0, "factor": 0.5}]}
        return (Change("2x faster GPUs (half the measured times)", values, 2.0),)
    return (Change("2x faster GPUs (arithmetic and memory)", _gpus(scenario, 2.0, 2.0), 2.0),)


def _memory_bandwidth(scenario: Scenario) -> Options:
    if _is_measured(scenario):
        return (
            "compute times were measured as a whole: "
            "which part of them is the memory's is not known"
        )
    return (Change("2x the GPUs' memory bandwidth", _gpus(scenario, 1.0, 2.0), 2.0),)


def _is_measured(scenario: Scenario) -> bool:
    return scenario.build_model().measured is not None


def _gpus(scenario: Scenario, arithmetic: float, memory: float) -> dict[str, Any]:
    """Return the values that multiply the figures of every kind of GPU."""
    return of_each(scenario.cluster, "gpu", lambda part: _gpu(part.accelerator, arithmetic, memory))


def _gpu(gpu: Gpu, arithmetic: float, memory: float) -> dict[str, Any]:
    peak = {
        name: {"value": exact(each.value * arithmetic, SPEED), "source": SOURCE}
        for name, each in gpu.peak.items()
    }
    bandwidth = {"value": exact(gpu.memory_bandwidth.value * memory, RATE), "source": SOURCE}
    changed = {
        **gpu.model_dump(mode="json", exclude_unset=True),
        "peak": peak,
        "memory_bandwidth": bandwidth,
    }
    if gpu.power is not None:
        # Power must grow with the arithmetic rate, or the clock would fall.
        changed["power"] = {"value": exact(gpu.power.value * arithmetic, POWER), "source": SOURCE}
    return changed


def _jitter(scenario: Scenario) -> Options:
    """Halve the spread of the jitter, or remove jitter without a single spread."""
    jitter = scenario.disturbance.jitter
    if jitter is None:
        return "compute times do not vary in this scenario"
    if jitter.spread is None:
        return (Change("no jitter", {"disturbance.jitter": None}),)
    half = getattr(jitter, jitter.spread) / 2
    return (Change("half the jitter", {f"disturbance.jitter.{jitter.spread}": half}, 0.5),)


def _stragglers(scenario: Scenario) -> Options:
    disturbance = scenario.disturbance
    if not disturbance.slow and not disturbance.transient:
        return "no worker is slow in this scenario"
    return (Change("without slow workers", {"disturbance.slow": [], "disturbance.transient": []}),)


def _loader(scenario: Scenario) -> Options:
    loaders = getattr(scenario.workload.input, "loader_workers", None)
    if loaders is None:
        return _IN_MEMORY
    return (Change("2x loader workers", {"workload.input.loader_workers": 2 * loaders}, 2.0),)


def _storage(scenario: Scenario) -> Options:
    bandwidth = getattr(scenario.workload.input, "bandwidth", None)
    if bandwidth is None:
        return _IN_MEMORY
    twice = {"workload.input.bandwidth": exact(2 * bandwidth, RATE)}
    return (Change("2x storage bandwidth", twice, 2.0),)


def _servers(scenario: Scenario) -> Options:
    aggregation = scenario.strategy.aggregation
    servers = len(aggregation.server_hosts(sum(part.nodes for part in scenario.cluster.parts)))

    if not servers:
        return "there are no parameter servers"
    return (
        Change(
            f"2x servers ({servers} -> {2 * servers})",
            {"strategy.aggregation.servers": 2 * servers},
            2.0,
        ),
    )


def _server_rate(scenario: Scenario) -> Options:
    rate = scenario.strategy.aggregation.adding_rate
    if rate is None:
        return "no server and no CPU adds gradients up"
    doubled = {f"strategy.aggregation.{rate.field}": exact(2 * rate.value, RATE)}
    return (Change(f"2x {rate.words}", doubled, 2.0),)


def _bucket_size(scenario: Scenario) -> Options:
    overlap = scenario.strategy.overlap
    now = overlap.size_of_buckets
    if now is None:
        return f"the overlap policy is {overlap.kind}, which has no buckets"
    return tuple(
        Change(
            f"bucket {now / _MEBI:g} -> {factor * now / _MEBI:g} MiB",
            {"strategy.overlap.bucket_size": exact(factor * now, DATA)},
            factor,
        )
        for factor in _BUCKETS
    )


def _overlap(scenario: Scenario) -> Options:
    """Return the other overlap policies.

    Policies that send hundreds of messages are left out if messages are timed by flows, which would
    take minutes.
    """
    now = scenario.strategy.overlap.kind
    left_out = {"wfbp"} | ({"priority"} if scenario.strategy.aggregation.timed_by_flows else set())
    # mg-wfbp includes wfbp.
    names = [kind for kind in kinds_of(OverlapConfig) if kind not in left_out]
    return tuple(
        Change(f"overlap {now} -> {name}", {"strategy.overlap": {"kind": name}})
        for name in names
        if name != now
    )


def _algorithm(scenario: Scenario) -> Options:
    now = scenario.strategy.aggregation.all_reduce
    if now is None:
        return "gradients are not all-reduced"
    if now.algorithm == "auto":
        return (
            f"{now.library} chooses it"
            if chooses(now.library)
            else "the fastest algorithm is chosen already"
        )
    return (
        Change(
            f"algorithm {now.algorithm} -> auto, the fastest",
            {"strategy.aggregation.algorithm": "auto"},
        ),
    )


def _compression(scenario: Scenario) -> Options:
    if not scenario.strategy.compression.exact:
        return f"gradients are compressed already ({scenario.strategy.compression.kind})"
    return (Change("gradients in half precision", {"strategy.compression": {"kind": "cast"}}),)


def _memory_format(scenario: Scenario) -> Options:
    """Store images channels last, as tensor cores require."""
    workload, model = scenario.workload, scenario.build_model()
    if model.measured is not None:
        return _MEASURED
    if not any(layer.kind == "conv" for layer in model.layers):
        return "the model has no convolutions"
    if workload.precision == "fp32":
        return "convolutions in fp32 take images as they are"
    if workload.full_software.memory_format == "channels_last":
        return "images are channels_last already"
    changed = {"workload.memory_format": "channels_last"}
    return (Change("memory format channels_first -> channels_last", changed),)


def _condition(scenario: Scenario) -> Options:
    """Assume tuned links and hosts, like vendors' benchmarks."""
    if scenario.condition == "tuned":
        return "links and hosts are assumed tuned, or were measured"
    if scenario.profile is not None and scenario.profile.step is not None:
        return "the calibration has the cluster's steps"
    return (Change("cluster ordinary -> tuned", {"cluster.condition": "tuned"}),)


def _execution(scenario: Scenario) -> Options:
    """Compile the model, or launch its kernels as a CUDA graph."""
    if scenario.build_model().measured is not None:
        return _MEASURED
    now = scenario.workload.full_software.execution
    return tuple(
        Change(f"execution {now} -> {name}", {"workload.execution": name})
        for name in ("compile", "cuda-graph")
        if name != now
    )


def _optimizer_kernels(scenario: Scenario) -> Options:
    """Use one kernel for the whole optimiser step."""
    measured = scenario.build_model().measured
    if measured is not None and measured.optimizer() is not None:
        return _MEASURED
    now = scenario.workload.full_software.optimizer_kernels
    if now in _FUSED:
        return f"the update is {now} already"
    return (Change(f"optimizer {now} -> fused", {"workload.optimizer_kernels": "fused"}),)


KNOBS: Registry[Knob] = Registry(
    "knob",
    {
        "network-bandwidth": Knob("network bandwidth", "exposed_comm", network_bandwidth),
        "latency": Knob("latency", "exposed_comm", latency),
        "node-bandwidth": Knob("bandwidth inside nodes", "exposed_comm", node_bandwidth),
        "condition": Knob("tuning of the cluster", "exposed_comm", _condition),
        "gpu-speed": Knob("GPU speed", "compute", _gpu_speed),
        "memory-bandwidth": Knob("GPU memory bandwidth", "compute", _memory_bandwidth),
        "checkpoint": Knob("activation checkpointing", "compute", checkpoint),
        "passes": Knob("passes of a step", "compute", passes),
        "batch": Knob("batch", "compute", batch),
        "accumulation": Knob("gradient accumulation", "exposed_comm", accumulation),
        "memory-format": Knob("layout of images", "compute", _memory_format),
        "execution": Knob("how kernels are launched", "compute", _execution),
        "optimizer-kernels": Knob("kernels of the update", "compute", _optimizer_kernels),
        "jitter": Knob("jitter", "straggler_wait", _jitter),
        "stragglers": Knob("slow workers", "straggler_wait", _stragglers),
        "loader": Knob("loader workers", "input", _loader),
        "storage": Knob("storage bandwidth", "input", _storage),
        "servers": Knob("servers", "exposed_comm", _servers),
        "server-rate": Knob("servers' update rate", "exposed_comm", _server_rate),
        "bucket-size": Knob("bucket size", "exposed_comm", _bucket_size),
        "overlap": Knob("overlap policy", "exposed_comm", _overlap),
        "algorithm": Knob("all-reduce algorithm", "exposed_comm", _algorithm),
        "compression": Knob("compression", "exposed_comm", _compression),
        "codec": Knob("codec", "exposed_comm", codec),
        "library": Knob("library", "exposed_comm", library),
        "sharding": Knob("sharding stage", "exposed_comm", sharding),
        "averaging": Knob("how often models are averaged", "exposed_comm", averaging),
    },
)
