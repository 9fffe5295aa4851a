"""From a scenario to what its workers do: compute times, operations merged and ordered, and a model of their collective."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpsim.aggregation import Operation
from dpsim.collectives import algorithm
from dpsim.errors import DpsimError
from dpsim.hardware import Gpu
from dpsim.network import CollectiveModel, MessageCosts, collective_model
from dpsim.scenario import Scenario
from dpsim.topology import Cluster, build_cluster
from dpsim.topology.network import FloatArray
from dpsim.workload import Accelerator, LayerTimes, Model, compute_times

_REDUCTION_TRAFFIC = 3  # bytes of memory traffic per byte reduced: two read, one written
_MOST_RECORDS = 20_000_000  # steps x workers that are kept


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One training job: what each worker computes in a step, and the operations of a step in their order."""

    scenario: Scenario
    cluster: Cluster
    times: LayerTimes
    plan: tuple[Operation, ...]
    collective: CollectiveModel

    @property
    def workers(self) -> int:
        """How many workers take part, one a GPU."""
        return self.cluster.ranks

    def scaled(self, factor: float) -> Job:
        """The same job with all compute times multiplied by ``factor``."""
        times = self.times
        return replace(self, times=LayerTimes(times.forward * factor, times.backward * factor, times.optimizer * factor))

    def backward_done(self) -> FloatArray:
        """Seconds from a step's start until each layer's backward pass is done; layers in forward order."""
        return np.asarray(self.times.forward.sum() + np.cumsum(self.times.backward[::-1])[::-1])


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
    strategy = scenario.strategy
    collective = collective_model(
        scenario.run.network_model,
        algorithm(strategy.aggregation.algorithm),
        cluster,
        MessageCosts(gamma=reduction_cost(scenario.cluster.accelerator)),
    )
    plan = strategy.overlap.plan(strategy.aggregation.operations(model)) if workers > 1 else ()
    return Job(scenario, cluster, _times(scenario, model), plan, collective)


def _times(scenario: Scenario, model: Model) -> LayerTimes:
    """Seconds that one worker computes in a step, from the figures of its GPU."""
    gpu, workload = scenario.cluster.accelerator, scenario.workload
    peaks: dict[str, float] = {precision: peak.value for precision, peak in gpu.peak.items()}
    return compute_times(
        model,
        Accelerator(gpu.name, peaks, gpu.memory_bandwidth.value),
        batch=workload.batch_per_gpu,
        precision=workload.precision,
        optimizer=workload.optimizer,
    )
