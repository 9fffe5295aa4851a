"""From a scenario to what its workers do.

Compute times, calls merged and ordered, and models of their collectives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.budget import check_memory
from dpsim.base.errors import DpsimError, suggestion
from dpsim.disturbance import DisturbanceConfig
from dpsim.engine.memory import MemoryUse, smallest_gpu
from dpsim.engine.staged_call import StagedCall, staged
from dpsim.engine.utilisation import accelerator
from dpsim.hardware import CalibrationProfile, Gpu, Transport
from dpsim.network import (
    Background,
    CollectiveModel,
    Conditions,
    LinkChange,
    MessageCosts,
    ModelKind,
    Outcome,
)
from dpsim.scenario import Scenario
from dpsim.strategy.aggregation import CollectiveCall, Meeting, Setting, Turns
from dpsim.strategy.overlap import Outlook, in_order
from dpsim.strategy.sync import Exchanged, Gate
from dpsim.topology import Cluster, Mesh, build_cluster
from dpsim.workload import (
    Efficiency,
    LayerTimes,
    LearnersRow,
    Model,
    Pipeline,
    Program,
    StorageInput,
    compute_times,
    fitted,
)

if TYPE_CHECKING:
    from dpsim.collectives import Groups
    from dpsim.workload import TransformerEfficiency

_REDUCTION_TRAFFIC = 3  # bytes of memory traffic per byte reduced: two read, one written
MOST_RECORDS = 20_000_000  # steps x workers that are kept
_BYTES_A_WORKER = 2_500.0
_BYTES_A_RECORD = 8.0 * 12
_LOSS = "average-loss"
_LOSS_BYTES = 4


class Exchange(NamedTuple):
    """What workers exchange in a step.

    ``grouped``: only with those of their group. ``fragments``: parts of the model that groups send
    one another after it.
    """

    kind: Exchanged
    grouped: bool = False
    fragments: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Job:
    """One training job: what each worker computes in a step, and what it communicates.

    ``times`` has an entry for each kind of GPU; worker i's is ``times[kind_of[i]]``.
    ``collectives`` has one model for each collective, or one for each step in turn.
    ``compute_scale`` is what ``times`` have been multiplied by.
    """

    scenario: Scenario
    cluster: Cluster
    model: Model
    times: tuple[LayerTimes, ...]
    collectives: Mapping[str, Turns]
    setting: Setting
    input: Pipeline | None = None
    compute_scale: float = 1.0

    @cached_property
    def program(self) -> Program:
        """The positions of a step."""
        return Program(len(self.model.layers), self.times[0].passes)

    @property
    def workers(self) -> int:
        """How many workers take part, one a GPU."""
        return self.cluster.ranks

    @property
    def workers_of_nodes(self) -> list[int]:
        """How many workers node 0, 1, ... has."""
        counted: list[int] = np.bincount(self.cluster.node_of).tolist()
        return counted

    @property
    def acts_alone(self) -> bool:
        """Whether each worker goes its own way, so that it is simulated as a process of its own."""
        return self.meeting is not Meeting.TOGETHER

    @property
    def own_pace(self) -> bool:
        """Whether some workers may take more steps than others in the same time, for good."""
        return self.acts_alone or self.gate().quorum < self.workers

    @property
    def by_messages(self) -> bool:
        """Whether what workers send meets message by message, where it meets.

        So where that is asked for, and among other traffic or on links that change unless something
        else is asked for.
        """
        kind = self.scenario.run.network_model
        return kind == "flows" or (kind == "auto" and self.scenario.disturbance.on_links)

    @cached_property
    def meeting(self) -> Meeting:
        """How its workers meet: all together, unless both strategies let each go its own way."""
        if self.silent or self.gate().barrier:
            return Meeting.TOGETHER
        return self.scenario.strategy.aggregation.meeting

    def gate(self) -> Gate:
        """The rule by which its workers wait for one another, at the start of a run."""
        return self.scenario.strategy.sync.gate(self.workers)

    @property
    def one_version(self) -> bool:
        """Whether all workers compute on versions of the same parameters."""
        strategy = self.scenario.strategy
        return strategy.sync.one_version and strategy.aggregation.one_version

    @cached_property
    def network(self) -> Cluster:
        """What carries its communication: the cluster, or the cluster with its CPUs and servers."""
        used = (
            getattr(model, "network", None)
            for turns in self.collectives.values()
            for model in turns
        )
        return next((network for network in used if isinstance(network, Cluster)), self.cluster)

    @cached_property
    def kind_of(self) -> IntArray:
        """Each worker's kind of GPU."""
        return self.cluster.accelerator_of

    def scaled(self, factor: float) -> Job:
        """The same job with all compute times multiplied by ``factor``."""
        return replace(
            self,
            times=tuple(times.scaled(factor) for times in self.times),
            compute_scale=self.compute_scale * factor,
        )

    def collective(self, name: str, step: int = 0) -> CollectiveModel:
        """The model of the collective ``name`` in step ``step``."""
        turns = self.collectives[name]
        return turns[step % len(turns)]

    def on_links(self, outcome: Outcome) -> FloatArray:
        """Bytes on each capacity of `network`; none where the collective has one of its own.

        A loss averaged beside servers.
        """
        capacities = len(self.network.capacities)
        return outcome.loads if len(outcome.loads) == capacities else np.zeros(capacities)

    @cached_property
    def period(self) -> int:
        """Steps between two averagings of models, where models are averaged."""
        return averaging_period(self.scenario)

    @cached_property
    def cycle(self) -> int:
        """Steps after which exchanges come again: from one outer step to the next."""
        return exchange_cycle(self.scenario)

    @cached_property
    def counted(self) -> range:
        """The steps that count, after the warm-up."""
        warmup = self.scenario.run.warmup
        return range(warmup, warmup + counted_steps(self.scenario))

    def exchange(self, step: int) -> Exchange:
        """What the workers exchange in step ``step``."""
        return exchange_of(self.scenario, step, self.period)

    def calls(self, step: int) -> tuple[StagedCall, ...]:
        """What is communicated in step ``step``, in order; nothing for a worker alone."""
        return self.calls_of[self.exchange(step)]

    @cached_property
    def calls_of(self) -> dict[Exchange, tuple[StagedCall, ...]]:
        """The calls of each kind of step that there is."""
        kinds = dict.fromkeys(self.exchange(step) for step in range(self.counted.stop))
        return {kind: self._calls(kind) for kind in kinds}

    def _calls(self, exchange: Exchange) -> tuple[StagedCall, ...]:
        """Those of a step in which all exchange ``exchange``."""
        strategy = self.scenario.strategy
        plan: tuple[CollectiveCall, ...] = ()
        mesh = self._meeting(grouped=exchange.grouped)
        if mesh.ranks == 1 < self.workers:
            pass  # nobody is in its group
        elif exchange.kind == "gradients":
            plan = self._plan(grouped=exchange.grouped)
        elif exchange.kind == "models":
            plan = self.averaging
        gpus = tuple(gpu for gpu, _ in self.cluster.accelerators)
        loss = self._loss(overlaps=strategy.overlap.overlaps)
        sent = []
        for call in in_order(plan, loss):
            # The loss is that of all workers, whoever else meets.
            alike = call.payload == "loss" or not exchange.grouped
            one = staged(
                call,
                strategy.compression,
                strategy.aggregation,
                self._meeting(grouped=False) if alike else mesh,
                gpus,
            )
            sent.append(one if alike else self._in_group(one))
        if exchange.fragments and not self.silent:
            from dpsim.engine.outer_step import outer_calls

            sent += outer_calls(self, exchange.fragments)
        return tuple(sent)

    def _meeting(self, *, grouped: bool) -> Mesh:
        """Those whom a worker meets: all, or its group."""
        mesh, cell = self.cluster.mesh, self.scenario.cell
        if cell > 1:
            return Mesh(mesh.ranks // cell, None)
        if not grouped:
            return mesh
        return Mesh(self.scenario.strategy.sync.group_size(mesh), None)

    def _in_group(self, call: StagedCall) -> StagedCall:
        """``call`` in each group of workers."""
        from dpsim.engine.outer_step import in_group

        stages = tuple((in_group(name), nbytes) for name, nbytes in call.stages)
        return replace(call, stages=stages, group="group")

    def _loss(self, *, overlaps: bool) -> tuple[CollectiveCall, ...]:
        """The loss of a step, averaged over all workers to be reported after it."""
        if _LOSS not in self.collectives:
            return ()
        program = self.program
        turn, end = program.turn(program.last), program.end
        return (CollectiveCall("loss", _LOSS_BYTES, turn if overlaps else end, end, _LOSS, "loss"),)

    @property
    def silent(self) -> bool:
        """Whether nothing is communicated.

        So for a worker alone, unless what it talks to are no workers.
        """
        replicas = self.workers // self.scenario.cell
        return replicas == 1 and not self.scenario.strategy.aggregation.moves_alone

    @cached_property
    def plan(self) -> tuple[CollectiveCall, ...]:
        """The calls of a step, merged and ordered by the overlap policy."""
        return self._plan(grouped=self.scenario.strategy.sync.grouped(0))

    def _plan(self, *, grouped: bool) -> tuple[CollectiveCall, ...]:
        if self.silent:
            return ()
        strategy, workload = self.scenario.strategy, self.scenario.workload
        calls = self._parts(
            strategy.aggregation.calls_on(
                self.model, self.program, workload.batch_per_gpu, self.cluster.mesh
            )
        )
        slowest = self.positions[:, self.positions[-1].argmax()]
        return strategy.overlap.step(
            calls, Outlook(slowest, *self._line(calls, grouped=grouped), self.program.passes)
        )

    @cached_property
    def averaging(self) -> tuple[CollectiveCall, ...]:
        """The calls of a step after which models are averaged."""
        if self.silent:
            return ()
        aggregation = self.scenario.strategy.aggregation
        return self._parts(aggregation.averaging(self.model, self.program))

    def _parts(self, calls: tuple[CollectiveCall, ...]) -> tuple[CollectiveCall, ...]:
        """What each GPU of a cell has of them: an equal part, in whole elements."""
        cell = self.scenario.cell
        if cell == 1:
            return calls
        sizes = [-(-call.nbytes // (call.width * cell)) * call.width for call in calls]
        return tuple(replace(call, nbytes=size) for call, size in zip(calls, sizes, strict=True))

    def _line(self, calls: tuple[CollectiveCall, ...], *, grouped: bool) -> tuple[float, float]:
        """Alpha (s) and beta (s/B) of the collective that carries gradients.

        From what nothing takes, and what all of them take.
        """
        gradients = [call for call in calls if call.payload == "gradients"]
        if not gradients:
            return 0.0, 0.0
        size = sum(call.nbytes for call in gradients)
        nothing, everything = (
            self._seconds(gradients[0].collective, nbytes, grouped=grouped) for nbytes in (0, size)
        )
        return nothing, (everything - nothing) / max(size, 1)

    def _seconds(self, collective: str, nbytes: int, *, grouped: bool) -> float:
        """How long uncompressed ``nbytes`` take with all workers there."""
        mesh = self._meeting(grouped=grouped)
        stages = self.scenario.strategy.aggregation.stages(
            collective, (nbytes,), nbytes, sums_in_flight=True, mesh=mesh
        )
        if grouped:
            from dpsim.engine.outer_step import in_group

            stages = tuple((in_group(name), size) for name, size in stages)
        ends = np.zeros(self.workers)
        for name, size in stages:
            ends = self.collective(name).finish(ends, size).finishes
        return float(ends.max())

    @cached_property
    def positions(self) -> FloatArray:
        """Seconds of computing from a step's start to each position of its program.

        Shape (positions, kinds of GPU).
        """
        return np.stack([times.ends for times in self.times], axis=1)


def reduction_cost(gpu: Gpu) -> float:
    """Seconds per byte that ``gpu`` adds to its own: its memory is the limit."""
    return _REDUCTION_TRAFFIC / gpu.memory_bandwidth.value


def averaging_period(scenario: Scenario) -> int:
    """Steps between two averagings of models, where models are averaged."""
    workload, workers = scenario.workload, scenario.cluster.ranks
    samples = workload.samples_per_gpu
    epoch = None if workload.dataset is None else workload.dataset.epoch(workers, samples).steps
    return scenario.strategy.sync.period(workers * samples, epoch)


def exchange_cycle(scenario: Scenario) -> int:
    """Steps after which exchanges come again: a whole period of averaging."""
    return scenario.strategy.sync.cycle(averaging_period(scenario))


def counted_steps(scenario: Scenario) -> int:
    """How many steps count: those asked for, or a whole period of averaging if that is longer.

    A shorter run would hold no averaging, or not what it costs a step.
    """
    run, cycle = scenario.run, exchange_cycle(scenario)
    last = run.warmup + run.steps - 1
    own_steps = last >= scenario.strategy.sync.first_own_step
    return cycle if own_steps and cycle > run.steps else run.steps


def exchange_of(scenario: Scenario, step: int, period: int) -> Exchange:
    """What workers exchange in step ``step`` where models are averaged every ``period`` steps."""
    sync = scenario.strategy.sync
    return Exchange(sync.exchanges(step, period), sync.grouped(step), sync.fragments(step, period))


def prepare(scenario: Scenario, transformer: TransformerEfficiency | None = None) -> Job:
    """The job that ``scenario`` describes, with the catalogue's compute times.

    ``transformer`` replaces the constants of transformers. Raises DpsimError where it asks for too
    much.
    """
    workers = scenario.cluster.ranks
    counted = counted_steps(scenario)
    steps = scenario.run.warmup + counted
    if steps * workers > MOST_RECORDS:
        whole_period = (
            ""
            if counted == scenario.run.steps
            else (", of which a whole period of averaging is simulated")
        )
        raise DpsimError(
            f"run: steps + warmup must be at most {MOST_RECORDS // workers} for {workers} workers "
            f"({MOST_RECORDS:,} records in all), but got {steps}{whole_period}"
        )
    check_memory(
        _BYTES_A_WORKER * workers + _BYTES_A_RECORD * steps * workers,
        f"simulating {workers:,} workers",
    )
    setting = _setting(scenario)
    cluster = setting.cluster
    model = scenario.build_model()
    collectives = _collectives(scenario, setting)
    if scenario.strategy.average_loss and cluster.ranks > 1:
        collectives[_LOSS] = (setting.timed("tree"),)
    times = tuple(_times(scenario, model, gpu, transformer) for gpu, _ in cluster.accelerators)
    job = Job(
        scenario, cluster, model, times, collectives, setting, _input_pipeline(scenario, cluster)
    )
    if not any(each.wire_traffic for each in times):
        return job
    from dpsim.engine.beside import delayed

    return delayed(job)


def _collectives(scenario: Scenario, setting: Setting) -> dict[str, Turns]:
    """The models of what all workers do, of what groups do, or of both."""
    strategy = scenario.strategy
    found: dict[str, Turns] = {}
    if not strategy.sync.grouped(0):
        found |= strategy.aggregation.collectives(setting)
    if strategy.sync.grouped(strategy.sync.first_own_step):
        from dpsim.engine.outer_step import group_collectives

        found |= group_collectives(scenario, setting)
    return _by_profile(scenario, found)


def _by_profile(scenario: Scenario, models: dict[str, Turns]) -> dict[str, Turns]:
    """The models with constants refitted on the collectives that the calibration has measured."""
    calibration = scenario.calibration
    if not isinstance(calibration, CalibrationProfile) or not calibration.tables:
        return models
    library = getattr(scenario.strategy.aggregation, "library", "ideal")
    tables = [each for each in calibration.tables if library in (each.backend, "ideal", "auto")]
    if not tables:
        return models
    from dpsim.engine.refit import refitted, same_on

    plain = scenario.model_copy(update={"calibration": "catalogue"})
    measured = {}
    for table in tables:
        there = same_on(plain, table.ranks, table.hosts)
        bases = there.strategy.aggregation.collectives(_setting(there))
        measured[table.ranks] = {name: turns[0] for name, turns in bases.items()}
    first = {name: turns[0] for name, turns in models.items() if len(turns) == 1}
    return models | {name: (model,) for name, model in refitted(first, measured, tables).items()}


def _setting(scenario: Scenario) -> Setting:
    """What the aggregation may know of the rest, with what the calibration says of messages."""
    transport = scenario.transport
    config = scenario.cluster
    if transport is not None:
        from dpsim.topology import cluster_over_transport

        config = cluster_over_transport(config, transport)
    cluster = build_cluster(config)
    gamma = max(reduction_cost(gpu) for gpu, _ in cluster.accelerators)
    asked, met = scenario.run.network_model, scenario.disturbance
    kind: ModelKind
    if asked == "bundle":
        # What its collective takes alone: whatever a bundle meets, it meets on the wire.
        kind, met = "auto", DisturbanceConfig()
    else:
        kind = asked
    return Setting(
        config,
        cluster,
        MessageCosts(gamma=gamma) if transport is None else transport_costs(transport, gamma),
        kind,
        partial(conditions_on, met),
        scenario.strategy.compression.sums_in_flight,
        scenario.run.seed,
        transport,
        _between_cells(scenario.cell),
    )


def _between_cells(cell: int) -> Groups | None:
    """Who meets where workers are cells of several GPUs: those of equal place in them."""
    if cell == 1:
        return None
    from dpsim.collectives import Groups

    return Groups(cell, across=True)


def transport_costs(transport: Transport, gamma: float) -> MessageCosts:
    """What a rank pays beside the network, whose links have the overhead of messages.

    ``gamma`` is what adding costs where the transport does not say it.
    """
    return MessageCosts(gamma=gamma if transport.gamma is None else transport.gamma)


def _input_pipeline(scenario: Scenario, cluster: Cluster) -> Pipeline | None:
    """The pipeline through which every worker's samples come, or None where they wait in memory."""
    source = scenario.workload.input
    if not isinstance(source, StorageInput):
        return None
    from dpsim.topology import host_copy_rates

    group_of = np.zeros_like(cluster.node_of) if source.shared == "cluster" else cluster.node_of
    sharing = np.bincount(group_of)[group_of]
    return source.pipeline(scenario.workload.samples_per_gpu, sharing, host_copy_rates(cluster))


def _times(
    scenario: Scenario, model: Model, gpu: Gpu, transformer: TransformerEfficiency | None
) -> LayerTimes:
    """Seconds that a worker on ``gpu`` computes in a step, all its learners."""
    workload = scenario.workload
    one = partial(learner_times, scenario, model, gpu, transformer=transformer)
    if workload.learners_per_gpu == 1:
        times = one(workload.batch_per_gpu)
    else:
        from dpsim.engine.learners import times_with_learners

        times = times_with_learners(
            scenario, model, gpu, one, workload.batch_per_gpu, workload.learners_per_gpu
        )
    return replace(times, optimizer=times.optimizer * _update_share(scenario))


def _update_share(scenario: Scenario) -> float:
    """The part of the optimiser's step that a worker takes.

    Its shard's, none where servers update, otherwise all of it.
    """
    strategy, workers = scenario.strategy, scenario.cluster.ranks
    shared = strategy.aggregation.shard_size(scenario.cluster.mesh)
    if shared > 1:
        return 1 / shared
    served = strategy.aggregation.updates_elsewhere and strategy.sync.one_version
    return 0.0 if served and (workers > 1 or strategy.aggregation.moves_alone) else 1.0


def learner_times(
    scenario: Scenario,
    model: Model,
    gpu: Gpu,
    batch: int,
    transformer: TransformerEfficiency | None = None,
) -> LayerTimes:
    """Seconds that one learner alone on ``gpu`` computes, by the GPU's figures.

    Each pass is over ``batch`` samples.
    """
    workload = scenario.workload
    return compute_times(
        model,
        accelerator(gpu),
        batch=batch,
        precision=workload.precision,
        optimizer=workload.optimizer,
        execution=workload.execution,
        kernels=workload.kernels,
        accumulation=workload.gradient_accumulation,
        recompute=workload.recompute,
        transformer=transformer,
        efficiency=_measured_efficiency(scenario, gpu),
    )


def _measured_efficiency(scenario: Scenario, gpu: Gpu) -> Efficiency | None:
    """The roofline's constants as the calibration has measured them; None where it has not."""
    calibration = scenario.calibration
    if not isinstance(calibration, CalibrationProfile) or not calibration.efficiency:
        return None
    found = {name: each.value for name, each in calibration.efficiency.items()}
    return fitted(gpu.architecture, scenario.workload.execution).measured(found)


def learners_by_batch(scenario: Scenario, use: MemoryUse) -> tuple[LearnersRow, ...]:
    """The best number of learners for each batch, on the GPU with the least memory."""
    from dpsim.engine.learners import best_by_batch

    gpu = smallest_gpu(scenario)
    return best_by_batch(scenario, gpu, partial(learner_times, scenario, use.model, gpu), use)


def conditions_on(
    disturbance: DisturbanceConfig, network: Cluster, workers: IntArray
) -> Conditions:
    """The other traffic and the link changes that a scenario asks for.

    GPU i is rank ``workers[i]`` of ``network``.

    Raises DpsimError for links or GPUs that are not there.
    """
    for number, flow in enumerate(disturbance.background):
        if max(flow.source, flow.destination) >= len(workers):
            raise DpsimError(
                f"disturbance.background.{number}: must name GPUs from 0 to {len(workers) - 1}, "
                f"but got {max(flow.source, flow.destination)}"
            )
    background = tuple(
        Background(int(workers[flow.source]), int(workers[flow.destination]), flow.rate or np.inf)
        for flow in disturbance.background
    )
    changes = [
        LinkChange(change.at, link, change.factor)
        for number, change in enumerate(disturbance.links)
        for link in _links(network, change.link, number)
    ]
    return Conditions(background, tuple(changes))


def _links(cluster: Cluster, pattern: str, number: int) -> list[int]:
    """The capacities whose name matches ``pattern``."""
    names = [cluster.link_name(link) for link in range(len(cluster.capacities))]
    found = [link for link, name in enumerate(names) if fnmatchcase(name, pattern)]
    if not found:
        raise DpsimError(
            f"disturbance.links.{number}.link: must name a link, but got "
            f"{pattern!r}{suggestion(pattern, names)}"
        )
    return found
