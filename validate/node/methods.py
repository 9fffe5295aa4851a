"""The method that runs a scenario's strategy on a node: torch's own where it has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.network.libraries import chooses
from dpsim.scenario import Scenario
from validate.microbench.software import omitted_words
from validate.run import library_of, method_of
from validate.training import Method, method_named

_WHOLE_BYTES = 2.0**50  # bytes: a bucket that never closes before the end
_EACH_BYTES = 1.0  # a bucket that closes after every tensor


def method_on(scenario: Scenario) -> Method:
    """Return the method of the scenario's strategy. Raises DpsimError if there is none."""
    strategy = scenario.strategy
    learners, sync = scenario.workload.learners_per_gpu, strategy.sync.kind
    if learners > 1 and (strategy.aggregation.kind, sync) != ("allreduce", "sma"):
        raise DpsimError(
            "workload.learners_per_gpu: must be 1 on real ranks but where strategy.sync is sma "
            f"over an all-reduce, but got {learners} with {sync}"
        )
    # Torch's own methods first, since people train with them on a node.
    choose = _BY_TORCH.get((strategy.aggregation.kind, strategy.sync.kind))
    method = None if choose is None else choose(scenario)
    return method_of(scenario) if method is None else method


def deviations(scenario: Scenario, *, on_gpu: bool) -> list[str]:
    """Return how the method deviates from the scenario, and other remarks for users."""
    method, workload = method_on(scenario), scenario.workload
    aggregation: Any = scenario.strategy.aggregation
    learners = scenario.workload.learners_per_gpu
    remarks = [
        *omitted_words(
            workload.full_software,
            workload.optimizer,
            on_gpu=on_gpu,
            divides=method.divides,
            flat=method.flat,
        )
    ]
    if aggregation.sharding_stage == 1 and aggregation.gradients.collective == "reduce-scatter":
        remarks.append(
            "torch's ZeroRedundancyOptimizer all-reduces gradients, and the prediction scatters "
            "them: strategy.aggregation.gradients.collective=all-reduce predicts what ran"
        )
    if workload.full_software.optimizer_kernels == "sharded" and aggregation.sharding_stage is None:
        remarks.append(
            "workload.optimizer_kernels sharded: each worker updates all weights by one kernel, "
            "and the prediction counts its share"
        )
    if workload.sync_batch_norm > 1 and not on_gpu:
        remarks.append(
            f"workload.sync_batch_norm {workload.sync_batch_norm}: torch shares statistics on "
            "GPUs only; each rank has its own, and the prediction waits for the group's"
        )
    codec = scenario.strategy.compression
    if method.kind == "ddp" and not codec.exact:
        from validate.microbench.torch_codecs import has_operators

        if not has_operators(codec):
            remarks.append(
                f"strategy.compression {codec.kind}: it is encoded by numpy in the host's memory, "
                "since validate/microbench/torch_codecs.py has no operators for it; the prediction "
                "encodes on the device"
            )
    if learners > 1:
        remarks.append(
            f"{learners} learners on each device are streams of one process (threads on a "
            "processor), for which NVIDIA's multi-process service (MPS) changes nothing"
        )
    return remarks


def _ddp(scenario: Scenario) -> Method | None:
    """Return DDP, if gradients overlap with the backward pass or a hook compresses them."""
    aggregation: Any = scenario.strategy.aggregation
    overlap, codec = scenario.strategy.overlap, scenario.strategy.compression
    other_than_ring = aggregation.algorithm not in (None, "ring")
    by_schedule = other_than_ring and not chooses(library_of(scenario))
    buckets = _buckets(scenario)
    # Without overlap or codec DDP reduces to one all-reduce after the backward pass.
    if by_schedule or buckets is None or (codec.exact and not overlap.overlaps):
        return None
    named = {name: f"{size!r} B" for name, size in buckets.items()}
    return method_named("ddp", codec=codec, **named)


def _learners(scenario: Scenario) -> Method | None:
    """Return several learners on each device, a stream each; None for one learner."""
    sync: Any = scenario.strategy.sync
    learners = scenario.workload.learners_per_gpu
    if learners == 1:
        return None
    return method_named(
        "sma", learners=learners, correction=sync.correction, momentum=sync.momentum
    )


def _buckets(scenario: Scenario) -> dict[str, float] | None:
    """Return how gradients are packed, None if DDP cannot pack them in this way."""
    overlap = scenario.strategy.overlap
    if not overlap.overlaps:
        # A single bucket closes when the backward pass ends, so nothing overlaps.
        return {"bucket_size": _WHOLE_BYTES, "first_bucket": _WHOLE_BYTES}
    if overlap.size_of_buckets is not None:
        first = getattr(overlap, "first_bucket", overlap.size_of_buckets)
        return {"bucket_size": overlap.size_of_buckets, "first_bucket": first}
    if overlap.merges_nothing:
        return {"bucket_size": _EACH_BYTES, "first_bucket": _EACH_BYTES}
    return None


def _fsdp(scenario: Scenario) -> Method | None:
    aggregation: Any = scenario.strategy.aggregation
    if aggregation.offloading.parts:
        raise DpsimError(
            "strategy.aggregation.offload: must be none on real ranks, but keeps "
            f"{', '.join(aggregation.offloading.parts)} in the host's memory"
        )
    if not scenario.strategy.compression.exact:
        raise DpsimError(
            "strategy.compression: must be none where sharding is carried out by FSDP2, but got "
            f"{scenario.strategy.compression.kind}"
        )
    # The first stage divides only the optimiser's state, which FSDP2 cannot do.
    if aggregation.stage == 1:
        return method_named("zero-1")
    group = aggregation.shard_size(scenario.cluster.mesh)
    return method_named(
        "fsdp",
        reshard=aggregation.stage == 3 and aggregation.reshard_after_forward,
        group=None if group == scenario.cluster.ranks else group,
        # Units of one byte, so that each block is a unit.
        unit_size=f"{1.0 if aggregation.wrap == 'block' else aggregation.unit_size!r} B",
        weights="fp32" if aggregation.weight_bytes == 4 else "bf16",
        gradients=aggregation.gradients.dtype or scenario.workload.parameter_dtype,
        sync_each_pass=aggregation.gradients.sync_each_pass,
    )


# By kind of aggregation and of sync: torch's own methods.
_BY_TORCH: Mapping[tuple[str, str], Callable[[Scenario], Method | None]] = {
    ("allreduce", "bsp"): _ddp,
    ("sharded", "bsp"): _fsdp,
    ("allreduce", "sma"): _learners,
}
