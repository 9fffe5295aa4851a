"""The collective calls of a step.

The strategy plans them, its codec encodes them, and its aggregation maps them to collectives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.disturbance import compute_factors
from dpsim.hardware import Gpu
from dpsim.strategy.aggregation import Aggregation, CollectiveCall, Group, Sent, in_order
from dpsim.strategy.compression import Codec
from dpsim.strategy.overlap import Outlook
from dpsim.topology import Mesh
from dpsim.workload import Program

if TYPE_CHECKING:
    from dpsim.engine.job_without_calls import Exchange, JobWithoutCalls

LOSS = "average-loss"
_LOSS_BYTES = 4
_COMPRESSED = ("gradients", "models")


def in_group(name: str) -> str:
    """Return the name of the collective ``name`` when it runs in every group of workers."""
    return f"{name} in groups"


class StagedCall(NamedTuple):
    """A collective call as its codec encodes it and its aggregation stages it.

    ``stages``: collectives, one after the other, and their bytes. ``encode`` and ``decode``:
    seconds on each kind of GPU; ``takes_encoding``: whether any encoding time is above 0. ``group``
    and ``lag`` are the call's. ``follows``: a worker starts it when the previous call has finished;
    nothing else waits for that call, so it is not ``awaited``.
    """

    name: str
    ready: int
    needed: int
    stages: tuple[tuple[str, int], ...]
    encode: FloatArray
    decode: FloatArray
    group: Group = "all"
    lag: int = 0
    takes_encoding: bool = False
    follows: bool = False
    awaited: bool = True

    def repeats(self, later: StagedCall, program: Program) -> bool:
        """Return whether ``later`` is the same call one pass later.

        A call needed after the last pass is needed at the same position, whichever pass sends it.
        """
        shift = program.pass_length
        needed = self.needed + (shift if self.needed < program.end else 0)
        return (
            later.ready == self.ready + shift
            and later.needed == needed
            and later.stages == self.stages
            and bool((later.encode == self.encode).all())
        )


def staged(
    call: CollectiveCall,
    codec: Codec,
    aggregation: Aggregation,
    mesh: Mesh,
    gpus: tuple[Gpu, ...],
) -> StagedCall:
    """Return ``call`` as ``codec`` encodes it and ``aggregation`` carries it.

    ``mesh`` is the mesh of the participants. Weights, samples and the loss are not compressed.
    """
    # Data that is not encoded keeps its width, can be summed in flight and takes no time.
    sent = Sent((call.nbytes,), call.nbytes)
    encode = decode = np.zeros(len(gpus))
    if call.payload in _COMPRESSED and not codec.exact:
        # Codecs encode float32, and at least one element.
        elements = max(call.nbytes // call.width, 1)
        sent = Sent(codec.stages(elements), call.nbytes, codec.sums_in_flight)
        payloads = aggregation.payloads(mesh.ranks, sums_in_flight=codec.sums_in_flight)
        encode, decode = _coding(codec, elements, payloads, gpus)
    return StagedCall(
        call.name,
        call.ready,
        call.needed,
        aggregation.stages(call.collective, sent, mesh),
        encode,
        decode,
        call.group,
        call.lag,
        # Computed once, because every step asks for it.
        takes_encoding=bool(encode.any()),
    )


def _coding(
    codec: Codec, elements: int, payloads: int, gpus: tuple[Gpu, ...]
) -> tuple[FloatArray, FloatArray]:
    """Return seconds to encode ``elements`` and decode ``payloads`` of as many, per GPU kind."""
    encode, decode = np.zeros(len(gpus)), np.zeros(len(gpus))
    for kind, gpu in enumerate(gpus):
        # Codecs compute in float32; without its rate, at the lowest known one of the GPU.
        fp32 = gpu.peak.get("fp32")
        peak = fp32.value if fp32 else min(each.value for each in gpu.peak.values())
        cost = {"memory_bandwidth": gpu.memory_bandwidth.value, "peak": peak}
        encode[kind] = codec.encode_seconds(elements, **cost)
        if payloads:
            decode[kind] = codec.decode_seconds(elements, payloads=payloads, **cost)
    return encode, decode


def calls_in(job: JobWithoutCalls, exchange: Exchange) -> tuple[StagedCall, ...]:
    """Return the calls of a step of ``job`` with this ``exchange``, in order."""
    strategy = job.scenario.strategy
    mesh = _peers(job, grouped=exchange.grouped)
    plan: tuple[CollectiveCall, ...] = ()
    if mesh.ranks == 1 < job.workers:
        pass  # each group has one worker
    elif exchange.kind == "gradients":
        plan = planned(job, grouped=exchange.grouped)
    elif exchange.kind == "models":
        plan = averaging(job)
    loss = _loss(job, overlaps=strategy.overlap.overlaps)
    sent: list[StagedCall] = []
    known: dict[tuple[object, ...], tuple[StagedCall, ...]] = {}
    for call in in_order(plan, loss):
        key = call.nbytes, call.collective, call.payload, call.width, call.group, call.lag
        if key not in known:
            # The loss is averaged over all workers, even in a step that exchanges in groups.
            in_groups = exchange.grouped and call.payload != "loss"
            if in_groups:
                known[key] = (_in_group(job, call, mesh),)
            else:
                among_all = _staged_among(job, call, _peers(job, grouped=False))
                known[key] = tuple(_by_communicator(among_all, strategy.aggregation))
        # Calls with the same key differ only in their names and positions.
        sent += [
            each._replace(name=call.name, ready=call.ready, needed=call.needed)
            for each in known[key]
        ]
    return tuple(sent)


def planned(job: JobWithoutCalls, *, grouped: bool) -> tuple[CollectiveCall, ...]:
    """Return the calls of a step, with gradients merged and ordered by the overlap policy.

    Other calls start when they are ready; without overlap, only when a pass waits for them.
    """
    if job.silent:
        return ()
    strategy, batch = job.scenario.strategy, job.scenario.workload.batch_per_gpu
    program, positions = job.program, job.positions
    mesh = _peers(job, grouped=grouped)
    calls = strategy.aggregation.calls(job.model, program, batch, mesh)
    if job.scenario.cell > 1:
        calls = _per_gpu_of_cell(job, calls)
    gradients = [call for call in calls if call.payload == "gradients"]
    others = tuple(
        call if strategy.overlap.overlaps else replace(call, ready=call.needed)
        for call in calls
        if call.payload != "gradients"
    )
    expected, alpha, beta = positions[:, 0], 0.0, 0.0
    # Few policies need costs, and timing a collective takes as long as half a step.
    if strategy.overlap.needs_times:
        expected = _awaited_positions(job)
        alpha, beta = _alpha_beta(job, gradients, grouped=grouped)
    ordered: list[CollectiveCall] = []
    # Gradients of two passes never share a bucket: the first are due before the second exist. A
    # gradient that is ready at the end of a pass belongs to that pass.
    for number, in_pass in groupby(gradients, key=lambda each: program.pass_of(each.ready - 1)):
        rebuilt = strategy.aggregation.rebuilds_buckets
        outlook = Outlook(expected, alpha, beta, program.passes, number, rebuilt)
        ordered += strategy.overlap.plan(tuple(in_pass), outlook)
    return in_order(tuple(ordered), others)


def _awaited_positions(job: JobWithoutCalls) -> FloatArray:
    """Return the seconds up to each position of a step for the worker that collectives wait for.

    It is the slowest worker, or the last of a quorum. All workers send in the same order, so they
    share the plan made for this one.
    """
    slow, seed = job.scenario.disturbance.slow, job.scenario.run.seed
    factors = compute_factors(job.workers, 1, seed, job.workers_of_nodes, slow=slow)
    factor = pace_of_cells(factors, job.scenario.cell)[0]
    quorum = job.workers if job.independent_workers else job.gate().quorum
    order = np.argsort(factor * job.positions[-1][job.kind_of], kind="stable")
    last = order[quorum - 1]
    return np.asarray(factor[last] * job.positions[:, job.kind_of[last]])


def pace_of_cells(factors: FloatArray, cell: int) -> FloatArray:
    """Return factors on compute times, (steps, workers), each cell as slow as its slowest GPU."""
    if cell == 1:
        return factors
    slowest = factors.reshape(len(factors), -1, cell).max(axis=2)
    return np.repeat(slowest, cell, axis=1)


def averaging(job: JobWithoutCalls) -> tuple[CollectiveCall, ...]:
    """Return the calls of a step after which models are averaged."""
    if job.silent:
        return ()
    calls = job.scenario.strategy.aggregation.averaging(job.model, job.program)
    return calls if job.scenario.cell == 1 else _per_gpu_of_cell(job, calls)


def _peers(job: JobWithoutCalls, *, grouped: bool) -> Mesh:
    """Return the mesh of the workers that a worker communicates with: all, or its group."""
    mesh, cell = job.cluster.mesh, job.scenario.cell
    if cell > 1:
        # The GPUs of a cell hold one model: there are as many replicas as cells.
        return Mesh(mesh.ranks // cell, None)
    if not grouped:
        return mesh
    return Mesh(job.scenario.strategy.sync.group_size(mesh), None)


def _by_communicator(call: StagedCall, aggregation: Aggregation) -> Iterator[StagedCall]:
    """Split ``call`` into one call per communicator that its stages use, in order."""
    parts = [
        (group, tuple(stages))
        for group, stages in groupby(call.stages, lambda stage: aggregation.communicator(stage[0]))
    ]
    if len(parts) <= 1:
        yield call
        return
    last, nothing = len(parts) - 1, np.zeros_like(call.encode)
    for number, (group, stages) in enumerate(parts):
        yield call._replace(
            stages=stages,
            group=group,
            encode=nothing if number else call.encode,
            takes_encoding=call.takes_encoding and not number,
            decode=call.decode if number == last else nothing,
            follows=number > 0,
            awaited=number == last,
        )


def _in_group(job: JobWithoutCalls, call: CollectiveCall, mesh: Mesh) -> StagedCall:
    """Return ``call`` staged in each group of workers; ``mesh`` is the mesh of one group."""
    sent = _staged_among(job, call, mesh)
    stages = tuple((in_group(name), nbytes) for name, nbytes in sent.stages)
    return sent._replace(stages=stages, group="group")


def _staged_among(job: JobWithoutCalls, call: CollectiveCall, mesh: Mesh) -> StagedCall:
    strategy = job.scenario.strategy
    gpus = tuple(gpu for gpu, _ in job.cluster.accelerators)
    return staged(call, strategy.compression, strategy.aggregation, mesh, gpus)


def _loss(job: JobWithoutCalls, *, overlaps: bool) -> tuple[CollectiveCall, ...]:
    """Return the call that averages the reported loss over all workers, if there is one."""
    if LOSS not in job.collectives:
        return ()
    program = job.program
    # The loss is known as soon as the last forward pass has finished.
    turn, end = program.turn(program.last), program.end
    return (CollectiveCall("loss", _LOSS_BYTES, turn if overlaps else end, end, LOSS, "loss"),)


def _per_gpu_of_cell(
    job: JobWithoutCalls, calls: tuple[CollectiveCall, ...]
) -> tuple[CollectiveCall, ...]:
    """Return the calls of one GPU of a cell, each with an equal share in whole elements."""
    cell = job.scenario.cell
    sizes = [-(-call.nbytes // (call.width * cell)) * call.width for call in calls]
    return tuple(replace(call, nbytes=size) for call, size in zip(calls, sizes, strict=True))


def _alpha_beta(
    job: JobWithoutCalls, gradients: list[CollectiveCall], *, grouped: bool
) -> tuple[float, float]:
    """Return alpha (s) and beta (s/B) of the collective that carries ``gradients``.

    They describe the line through its times for 0 bytes and for all gradients.
    """
    if not gradients:
        return 0.0, 0.0
    size = sum(call.nbytes for call in gradients)
    nothing, everything = (
        _seconds(job, gradients[0].collective, nbytes, grouped=grouped) for nbytes in (0, size)
    )
    return nothing, (everything - nothing) / max(size, 1)


def _seconds(job: JobWithoutCalls, collective: str, nbytes: int, *, grouped: bool) -> float:
    """Return the seconds that uncompressed ``nbytes`` take when all workers start together."""
    mesh = _peers(job, grouped=grouped)
    aggregation = job.scenario.strategy.aggregation
    stages = aggregation.stages(collective, Sent((nbytes,), nbytes), mesh)
    if grouped:
        stages = tuple((in_group(name), size) for name, size in stages)
    ends = np.zeros(job.workers)
    for name, size in stages:
        ends = job.collective(name).finish(ends, size).finishes
    return float(ends.max())
