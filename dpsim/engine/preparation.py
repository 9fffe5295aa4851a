"""From a scenario to its job: the cluster, compute times, and models of its collectives."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from dpsim.base.arrays import IntArray
from dpsim.base.config import BY_CONTENT
from dpsim.base.errors import DpsimError
from dpsim.base.units import TIME
from dpsim.disturbance import DisturbanceConfig
from dpsim.engine.calls import LOSS
from dpsim.engine.gpu_times import learner_times
from dpsim.engine.job import Job
from dpsim.hardware import Gpu, Transport
from dpsim.network import CollectiveModel, Conditions, MessageCosts, ModelKind
from dpsim.scenario import Scenario
from dpsim.strategy.aggregation import Setting, Turns
from dpsim.topology import Cluster, ClusterConfig, build_cluster
from dpsim.workload import (
    Constants,
    LayerTimes,
    Model,
    Pipeline,
)

if TYPE_CHECKING:
    from dpsim.collectives import Groups

_REDUCTION_TRAFFIC = 3  # bytes of memory traffic per byte reduced: two read, one written


def reduction_cost(gpu: Gpu) -> float:
    """Seconds per byte that ``gpu`` adds to its own: its memory is the limit."""
    return _REDUCTION_TRAFFIC / gpu.memory_bandwidth.value


class KeptNetwork:
    """The cluster that was built last, and the models of collectives on it, for the next job."""

    def __init__(self) -> None:
        self._key = ""
        self._cluster: Cluster | None = None
        self._models: dict[Hashable, CollectiveModel] = {}

    def built(self, config: ClusterConfig) -> tuple[Cluster, dict[Hashable, CollectiveModel]]:
        """The cluster of ``config`` and its models, those of the last one where it is the same."""
        # By content: a file that it names may hold something else by now.
        key = json.dumps(config.model_dump(mode="json", context=BY_CONTENT), sort_keys=True)
        if self._cluster is None or key != self._key:
            self._key, self._cluster, self._models = key, build_cluster(config), {}
        return self._cluster, self._models


def prepare(
    scenario: Scenario,
    constants: Constants | None = None,
    network: KeptNetwork | None = None,
    model: Model | None = None,
) -> Job:
    """The job that ``scenario`` describes, with the catalogue's compute times.

    ``constants`` replace those of computing; ``network`` is what may be there from
    the job before, ``model`` the scenario's where it is built already. Raises DpsimError where it
    asks for what cannot be had. How many workers and steps are too many is for who simulates it to
    check first (`check_length`).
    """
    setting, collectives = _communication(scenario, network)
    cluster = setting.cluster
    if model is None:
        model = scenario.build_model()
    if not model.trained and cluster.ranks > 1:
        # Nothing would travel, and scaling look perfect.
        raise DpsimError(
            "workload.model: must have parameters, whose gradients workers exchange, but "
            f"{model.name} has none (a profiler's trace has them with record_shapes=True)"
        )
    pipeline = _input_pipeline(scenario, cluster)
    times = tuple(
        _times(scenario, model, gpu, cluster.ranks, constants) for gpu, _ in cluster.accelerators
    )
    least = min(each.one_pass for each in times)
    if least < TIME.least:
        # Whoever takes no time has no pace. Measured times may be 0, if not those of all layers.
        raise DpsimError(
            f"workload.model: must take at least {TIME.least:g} s to compute, but takes {least:g} s"
        )
    job = Job(scenario, cluster, model, times, collectives, setting, pipeline)
    if scenario.strategy.aggregation.kept_away.parts:
        from dpsim.engine.offload import offloaded

        job = offloaded(job)
    # What passes lose to what is sent beside them needs a plan of that, and so a whole job.
    if any(each.wire_traffic for each in times):
        from dpsim.engine.memory_contention import delayed

        job = delayed(job)
    fitted = scenario.profile is not None and scenario.profile.step is not None
    if scenario.condition == "tuned" and not fitted:
        return job
    from dpsim.engine.step_constants import adjusted
    from dpsim.engine.step_priors import constants_of_steps

    return adjusted(job, constants_of_steps(scenario))


def _communication(
    scenario: Scenario, network: KeptNetwork | None
) -> tuple[Setting, dict[str, Turns]]:
    """The cluster as strategies see it, and the models of the collectives on it.

    Those are of what all workers do, of what groups do, or of both.
    """
    strategy, setting = scenario.strategy, _setting(scenario, network)
    found: dict[str, Turns] = {}
    # Where groups meet from the first step on, all workers together never do.
    if not strategy.sync.has_groups or strategy.sync.first_own_step > 0:
        found |= strategy.aggregation.collectives(setting)
    if strategy.sync.has_groups:
        from dpsim.engine.outer_step import group_collectives

        found |= group_collectives(scenario, setting)
    profile = scenario.profile
    if profile is not None and profile.tables:
        from dpsim.engine.refit import measured_models

        found = measured_models(scenario, profile, setting.library, found, _setting)
    if strategy.average_loss and setting.cluster.ranks > 1:
        found[LOSS] = (setting.timed("tree"),)
    return setting, found


def _setting(scenario: Scenario, network: KeptNetwork | None = None) -> Setting:
    """What the aggregation may know of the rest, with what the calibration says of messages."""
    asked, disturbance = scenario.run.network_model, scenario.disturbance
    disturbed = bool(disturbance.background or disturbance.links)
    kind: ModelKind
    if asked == "bundle":
        # What its collective takes alone: what else is on the links, a bundle shares them with.
        kind, disturbances = "auto", None
    else:
        kind, disturbances = asked, _conditions(disturbance) if disturbed else None
    config, profile = scenario.cluster, scenario.profile
    # Of several kinds of GPU the one with the slowest memory sets the pace of a sum.
    gamma = max(reduction_cost(part.accelerator) for part in config.parts)
    groups, costs = _between_cells(scenario.cell), MessageCosts(gamma=gamma)
    transport = None if profile is None else profile.measured_transport
    if transport is not None:
        from dpsim.topology import cluster_over_transport

        config = cluster_over_transport(config, transport)
        costs = transport_costs(transport, gamma)
    cluster, models = (build_cluster(config), {}) if network is None else network.built(config)
    return Setting(
        config,
        cluster,
        costs,
        kind,
        disturbances,
        scenario.strategy.compression.sums_in_flight,
        scenario.run.seed,
        transport,
        groups,
        models=models,
        disturbed=disturbed,
    )


def _conditions(disturbance: DisturbanceConfig) -> Callable[[Cluster, IntArray], Conditions]:
    """What it does to a network with workers at some of its ranks."""
    from dpsim.engine.conditions import conditions_on

    return partial(conditions_on, disturbance)


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
    workload = scenario.workload
    if not workload.input.is_loaded:
        return None
    from dpsim.topology import host_copy_rates

    copy_rates = host_copy_rates(cluster)
    return workload.input.pipeline(workload.samples_per_gpu, cluster.node_of, copy_rates)


def _times(
    scenario: Scenario, model: Model, gpu: Gpu, ranks: int, constants: Constants | None
) -> LayerTimes:
    """Seconds that a worker on ``gpu`` computes in a step, all its learners."""
    workload = scenario.workload
    one = partial(
        learner_times,
        scenario,
        model,
        gpu,
        constants=constants,
        updated=_updated_part(scenario, model, ranks),
    )
    if workload.learners_per_gpu == 1 and not workload.utilisation:
        return _beside(scenario, one(workload.batch_per_gpu))
    from dpsim.engine.learners import times_with_learners

    found = times_with_learners(
        scenario, model, gpu, one, workload.batch_per_gpu, workload.learners_per_gpu
    )
    return _beside(scenario, found)


def _beside(scenario: Scenario, times: LayerTimes) -> LayerTimes:
    """The same with what the calibration has measured that computing loses to communication."""
    measured = None if scenario.profile is None else scenario.profile.beside
    if measured is None:
        return times
    # Seconds a byte: what strategies copy is in the times that were measured with it.
    return replace(times, wire_traffic=measured.value, copy_traffic=0.0, memory_rate=1.0)


def _updated_part(scenario: Scenario, model: Model, ranks: int) -> float:
    """The part of the model that a worker updates; sharded kernels divide it among workers."""
    part = _kept_part(scenario, model)
    if scenario.workload.words.optimizer_kernels != "sharded":
        return part
    return part * scenario.cell / ranks


def _kept_part(scenario: Scenario, model: Model) -> float:
    """The part of the model whose state a worker keeps.

    It is that of its shard, none where servers update, and otherwise all.
    """
    strategy = scenario.strategy
    if strategy.aggregation.kept_away.optimizer != "none":
        return 0.0  # the processors do
    if strategy.aggregation.shards:
        return strategy.aggregation.updated_part(model, strategy.peers(scenario.cluster.mesh))
    served = strategy.aggregation.updates_elsewhere and strategy.sync.one_version
    return 0.0 if served else 1.0


def updated_part(job: Job) -> float:
    """The part of the model that each worker of a job updates."""
    return _updated_part(job.scenario, job.model, job.cluster.ranks)
