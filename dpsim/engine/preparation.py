"""Prepare the job of a scenario: the cluster, compute times, and models of its collectives."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import replace
from functools import partial

from dpsim.base.config import BY_CONTENT
from dpsim.base.errors import DpsimError
from dpsim.base.units import TIME
from dpsim.collectives import Groups
from dpsim.engine.calls import LOSS
from dpsim.engine.conditions import conditions_on
from dpsim.engine.gpu_times import learner_times
from dpsim.engine.job import Job
from dpsim.hardware import Gpu, Transport
from dpsim.network import CollectiveModel, MessageCosts, ModelKind
from dpsim.scenario import Scenario
from dpsim.strategy.aggregation import Setting, Turns
from dpsim.topology import Cluster, ClusterConfig, build_cluster
from dpsim.workload import (
    Constants,
    LayerTimes,
    Model,
    Pipeline,
)

_REDUCTION_TRAFFIC = 3  # bytes of memory traffic per reduced byte: two read, one written


def reduction_cost(gpu: Gpu) -> float:
    """Return the seconds per byte in which ``gpu`` adds data to its own, limited by its memory."""
    return _REDUCTION_TRAFFIC / gpu.memory_bandwidth.value


class KeptNetwork:
    """The cluster that was built last, and its collectives' models, cached for the next job."""

    def __init__(self) -> None:
        self._key = ""
        self._cluster: Cluster | None = None
        self._models: dict[Hashable, CollectiveModel] = {}

    def built(self, config: ClusterConfig) -> tuple[Cluster, dict[Hashable, CollectiveModel]]:
        """Return the cluster of ``config`` and its models, reused if they are the last ones."""
        # By content, because a file that it names may have changed.
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
    """Return the job that ``scenario`` describes, with the catalogue's compute times.

    ``constants`` replace the fitted ones of computing. ``network`` caches the network of the
    previous job; ``model`` is the scenario's model if it is already built. Raises DpsimError if the
    scenario asks for something impossible. The caller must first check the number of workers and
    steps (`check_length`).
    """
    setting, collectives = _communication(scenario, network)
    cluster = setting.cluster
    if model is None:
        model = scenario.build_model()
    if not model.trained and cluster.ranks > 1:
        # Nothing would be sent, and scaling would look perfect.
        raise DpsimError(
            "workload.model: must have parameters, whose gradients workers exchange, but "
            f"{model.name} has none (a profiler's trace has them with record_shapes=True)"
        )
    pipeline = _input_pipeline(scenario, cluster)
    times = tuple(
        _times(scenario, model, gpu, cluster.ranks, constants) for gpu, _ in cluster.accelerators
    )
    if scenario.workload.sync_batch_norm > 1:
        from dpsim.engine.shared_statistics import statistics_waits

        waits = statistics_waits(scenario, model, setting)
        times = tuple(
            replace(each, forward=each.forward + waits, backward=each.backward + waits)
            for each in times
        )
    least = min(each.one_pass for each in times)
    if least < TIME.least:
        # Without compute time there is no pace. Some layers' measured times may be 0, but not all.
        raise DpsimError(
            f"workload.model: must take at least {TIME.least:g} s to compute, but takes {least:g} s"
        )
    job = Job(scenario, cluster, model, times, collectives, setting, pipeline)
    if scenario.strategy.aggregation.offloading.parts:
        from dpsim.engine.offload import offloaded

        job = offloaded(job)
    # The slowdown by overlapped communication needs the plan of calls, and so a whole job.
    if any(each.wire_traffic for each in times):
        from dpsim.engine.memory_contention import delayed

        job = delayed(job)
    profile = scenario.profile
    fitted = profile is not None and profile.step is not None
    if scenario.condition == "tuned" and not fitted:
        return job
    from dpsim.engine.step_constants import adjusted
    from dpsim.engine.step_priors import constants_of_steps, residual_prior

    step = constants_of_steps(scenario)
    if profile is not None and fitted:
        from dpsim.engine.known_residuals import corrected

        step = corrected(step, profile.known, scenario.place, residual_prior(scenario))
    return adjusted(job, step)


def _communication(
    scenario: Scenario, network: KeptNetwork | None
) -> tuple[Setting, dict[str, Turns]]:
    """Return the aggregation's setting, and the models of the collectives.

    Collectives run among all workers, in groups, or both.
    """
    strategy, setting = scenario.strategy, _setting(scenario, network)
    found: dict[str, Turns] = {}
    # If groups exchange from the first step on, no collective joins all workers.
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
    """Return the aggregation's setting, with the calibration's message costs."""
    requested, disturbance = scenario.run.network_model, scenario.disturbance
    disturbed = bool(disturbance.background or disturbance.links)
    kind: ModelKind
    if requested == "bundle":
        # A bundle is timed without other traffic; it shares the links when it is simulated.
        kind, disturbances = "auto", None
    else:
        kind, disturbances = requested, partial(conditions_on, disturbance) if disturbed else None
    config, profile = scenario.cluster, scenario.profile
    # The GPU with the slowest memory determines the pace of a sum.
    gamma = max(reduction_cost(part.accelerator) for part in config.parts)
    costs = MessageCosts(gamma=gamma)
    # GPUs with the same index in their cells exchange gradients.
    groups = Groups(scenario.cell, across=True) if scenario.cell > 1 else None
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


def transport_costs(transport: Transport, gamma: float) -> MessageCosts:
    """Return a rank's message costs; the network's links have the overhead per message.

    ``gamma`` is the cost of summing if the transport does not state it.
    """
    return MessageCosts(gamma=gamma if transport.gamma is None else transport.gamma)


def _input_pipeline(scenario: Scenario, cluster: Cluster) -> Pipeline | None:
    """Return every worker's input pipeline, or None if samples are in memory."""
    workload = scenario.workload
    if not workload.input.is_loaded:
        return None
    from dpsim.topology import host_copy_rates

    copy_rates = host_copy_rates(cluster)
    return workload.input.pipeline(workload.samples_per_gpu, cluster.node_of, copy_rates)


def _times(
    scenario: Scenario, model: Model, gpu: Gpu, ranks: int, constants: Constants | None
) -> LayerTimes:
    """Return the seconds that a worker on ``gpu`` computes in a step, with all its learners."""
    workload = scenario.workload
    batch, learners = workload.batch_per_gpu, workload.learners_per_gpu
    updated = _updated_part(scenario, model, ranks)
    times = partial(learner_times, scenario, model, gpu, constants=constants, updated=updated)
    if learners == 1 and not workload.utilisation:
        found = times(batch)
    else:
        from dpsim.engine.learners import times_with_learners

        found = times_with_learners(scenario, model, gpu, times, batch, learners)
    beside = None if scenario.profile is None else scenario.profile.beside
    if beside is None:
        return found
    # The profile's seconds per byte; its measured times include the strategies' copies.
    return replace(found, wire_traffic=beside.value, copy_traffic=0.0, memory_rate=1.0)


def _updated_part(scenario: Scenario, model: Model, ranks: int) -> float:
    """Return the part of the model that a worker updates.

    It is the shard if the state is sharded, none if servers or host CPUs update, and all otherwise;
    sharded kernels divide it.
    """
    strategy, part = scenario.strategy, 1.0
    aggregation = strategy.aggregation
    if aggregation.offloading.optimizer != "none":
        part = 0.0
    elif aggregation.shards:
        part = aggregation.updated_part(model, strategy.peers(scenario.cluster.mesh))
    elif aggregation.updates_elsewhere and strategy.sync.one_version:
        part = 0.0
    if scenario.workload.full_software.optimizer_kernels != "sharded":
        return part
    return part * scenario.cell / ranks


def updated_part(job: Job) -> float:
    """Return the part of the model that each worker of a job updates."""
    return _updated_part(job.scenario, job.model, job.cluster.ranks)
