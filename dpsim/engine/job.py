"""From a scenario to what its workers do: compute times, operations merged and ordered, and a model of their collective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property, partial

import numpy as np

from dpsim.aggregation import Operation
from dpsim.engine.input import input_pipeline
from dpsim.engine.learners import best_by_batch, times_with_learners
from dpsim.engine.memory import MemoryUse, smallest_gpu
from dpsim.engine.wire import Message, message
from dpsim.errors import DpsimError, suggestion
from dpsim.hardware import Gpu
from dpsim.network import Background, CollectiveModel, Conditions, LinkChange, MessageCosts, named_model
from dpsim.overlap import Outlook
from dpsim.scenario import DisturbanceConfig, Scenario
from dpsim.topology import Cluster, build_cluster
from dpsim.topology.network import FloatArray, IntArray
from dpsim.workload import Accelerator, LayerTimes, LearnersRow, Model, Pipeline, compute_times

_REDUCTION_TRAFFIC = 3  # bytes of memory traffic per byte reduced: two read, one written
_MOST_RECORDS = 20_000_000  # steps x workers that are kept


@dataclass(frozen=True, eq=False)
class Job:
    """One training job: what each worker computes in a step, and what it communicates.

    ``times`` has an entry for each kind of GPU; worker i's is ``times[kind_of[i]]``.
    """

    scenario: Scenario
    cluster: Cluster
    times: tuple[LayerTimes, ...]
    operations: tuple[Operation, ...]
    collectives: Mapping[str, CollectiveModel]
    input: Pipeline | None = None

    @property
    def workers(self) -> int:
        """How many workers take part, one a GPU."""
        return self.cluster.ranks

    @cached_property
    def kind_of(self) -> IntArray:
        """Each worker's kind of GPU."""
        return self.cluster.accelerator_of

    def scaled(self, factor: float) -> Job:
        """The same job with all compute times multiplied by ``factor``."""
        return replace(self, times=tuple(times.scaled(factor) for times in self.times))

    @cached_property
    def plan(self) -> tuple[Operation, ...]:
        """The operations of a step, merged and ordered by the overlap policy; none for a worker alone."""
        if self.workers == 1:
            return ()
        together = np.zeros(self.workers)
        size = sum(operation.nbytes for operation in self.operations)
        nothing, all_of_it = (float(self.collectives["all-reduce"].finish(together, nbytes).finishes.max()) for nbytes in (0, size))
        slowest = self.positions[:, self.positions[-1].argmax()]
        outlook = Outlook(slowest, alpha=nothing, beta=(all_of_it - nothing) / max(size, 1))
        return self.scenario.strategy.overlap.plan(self.operations, outlook)

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The plan as it goes on the wire: each operation through the codec."""
        gpus = tuple(gpu for gpu, _ in self.cluster.accelerators)
        return tuple(message(operation, self.scenario.strategy.compression, self.workers, gpus) for operation in self.plan)

    @cached_property
    def positions(self) -> FloatArray:
        """Seconds of computing from a step's start to each position of it (see `dpsim.aggregation.operation`).

        Shape (2 L + 1, kinds of GPU). Accumulated passes before the last one are computed before the first layer is done.
        """
        passes = [np.concatenate([times.forward, times.backward[::-1]]) for times in self.times]
        ends = [times.earlier + np.cumsum(each) for times, each in zip(self.times, passes, strict=True)]
        return np.stack([np.concatenate([[0.0], each]) for each in ends], axis=1)

    @cached_property
    def updates(self) -> FloatArray:
        """Seconds of each worker's optimiser step."""
        return np.array([times.optimizer for times in self.times])[self.kind_of]


def reduction_cost(gpu: Gpu) -> float:
    """Seconds per byte that ``gpu`` adds to its own: its memory is the limit."""
    return _REDUCTION_TRAFFIC / gpu.memory_bandwidth.value


def prepare(scenario: Scenario) -> Job:
    """The job that ``scenario`` describes, with the catalogue's compute times. Raises DpsimError where it asks for too much."""
    workers, steps = scenario.cluster.ranks, scenario.run.steps + scenario.run.warmup
    if steps * workers > _MOST_RECORDS:
        raise DpsimError(
            f"run: steps + warmup must be at most {_MOST_RECORDS // workers} for {workers} workers "
            f"({_MOST_RECORDS:,} records in all), but got {steps}"
        )
    cluster = build_cluster(scenario.cluster)
    model = scenario.workload.build()
    aggregation = scenario.strategy.aggregation
    collectives = {"all-reduce": _collective(scenario, cluster, "all-reduce", aggregation.algorithm)}
    if not scenario.strategy.compression.sums_in_flight:
        gathered = "ring" if aggregation.library == "ideal" else "auto"
        collectives["all-gather"] = _collective(scenario, cluster, "all-gather", gathered)
    times = tuple(_times(scenario, model, gpu) for gpu, _ in cluster.accelerators)
    return Job(scenario, cluster, times, aggregation.operations(model), collectives, input_pipeline(scenario, cluster))


def _collective(scenario: Scenario, cluster: Cluster, operation: str, algorithm: str) -> CollectiveModel:
    """The model of one collective operation on the cluster, as the scenario wants it timed."""
    return named_model(
        scenario.run.network_model,
        algorithm,
        cluster,
        MessageCosts(gamma=max(reduction_cost(gpu) for gpu, _ in cluster.accelerators)),
        operation=operation,
        library=scenario.strategy.aggregation.library,
        conditions=conditions_on(cluster, scenario.disturbance),
    )


def _times(scenario: Scenario, model: Model, gpu: Gpu) -> LayerTimes:
    """Seconds that a worker on ``gpu`` computes in a step, all its learners."""
    workload = scenario.workload
    one = partial(learner_times, scenario, model, gpu)
    return times_with_learners(scenario, model, gpu, one, workload.batch_per_gpu, workload.learners_per_gpu)


def learner_times(scenario: Scenario, model: Model, gpu: Gpu, batch: int) -> LayerTimes:
    """Seconds that one learner alone on ``gpu`` computes on ``batch`` samples, from the GPU's figures."""
    workload = scenario.workload
    peaks: dict[str, float] = {precision: peak.value for precision, peak in gpu.peak.items()}
    return compute_times(
        model,
        Accelerator(gpu.name, peaks, gpu.memory_bandwidth.value, gpu.architecture, gpu.power.value if gpu.power else None),
        batch=batch,
        precision=workload.precision,
        optimizer=workload.optimizer,
        execution=workload.execution,
        accumulation=workload.gradient_accumulation,
        checkpoint_every=workload.checkpoint_every,
    )


def learners_by_batch(scenario: Scenario, use: MemoryUse) -> tuple[LearnersRow, ...]:
    """The best number of learners for each batch, on the GPU with the least memory of the cluster."""
    gpu = smallest_gpu(scenario)
    return best_by_batch(scenario, gpu, partial(learner_times, scenario, use.model, gpu), use)


def conditions_on(cluster: Cluster, disturbance: DisturbanceConfig) -> Conditions:
    """The other traffic and the link changes that a scenario asks for. Raises DpsimError for links or GPUs that are not there."""
    for number, flow in enumerate(disturbance.background):
        if max(flow.source, flow.destination) >= cluster.ranks:
            raise DpsimError(
                f"disturbance.background.{number}: must name GPUs from 0 to {cluster.ranks - 1}, "
                f"but got {max(flow.source, flow.destination)}"
            )
    background = tuple(Background(flow.source, flow.destination, flow.rate or np.inf) for flow in disturbance.background)
    changes = [
        LinkChange(change.at, link, change.factor)
        for number, change in enumerate(disturbance.links)
        for link in _links(cluster, change.link, number)
    ]
    return Conditions(background, tuple(changes))


def _links(cluster: Cluster, pattern: str, number: int) -> list[int]:
    """The capacities whose name matches ``pattern``."""
    names = [cluster.link_name(link) for link in range(len(cluster.capacities))]
    found = [link for link, name in enumerate(names) if fnmatchcase(name, pattern)]
    if not found:
        raise DpsimError(f"disturbance.links.{number}.link: must name a link, but got {pattern!r}{suggestion(pattern, names)}")
    return found
