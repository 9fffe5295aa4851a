"""A job before its calls are planned: its workers, times and collectives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.errors import DpsimError
from dpsim.engine.run_length import averaging_period, counted_steps, exchange_cycle
from dpsim.network import CollectiveModel
from dpsim.scenario import Scenario
from dpsim.strategy.aggregation import Coordination, Setting, Turns
from dpsim.strategy.sync import Exchanged, Gate
from dpsim.topology import Cluster
from dpsim.workload import LayerTimes, Model, Pipeline, Program


class Exchange(NamedTuple):
    """The kind of exchange in a step.

    ``grouped``: only within each group. ``fragments``: parts of the model that groups send to one
    another after the step.
    """

    kind: Exchanged
    grouped: bool = False
    fragments: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class JobWithoutCalls:
    """One training job without the calls of its steps, which `dpsim.engine.job.Job` adds.

    ``times`` has an entry for each kind of GPU; worker i's is ``times[kind_of[i]]``.
    ``collectives`` has one model for each collective, or one for each step in turn.
    ``compute_scale`` is the factor that ``times`` have been multiplied by. All other attributes are
    derived from these, and computed once.
    """

    scenario: Scenario
    cluster: Cluster
    model: Model
    times: tuple[LayerTimes, ...]
    collectives: Mapping[str, Turns]
    setting: Setting
    input: Pipeline | None = None
    compute_scale: float = 1.0

    workers: int = field(init=False)
    """How many workers take part, one a GPU."""
    workers_of_nodes: list[int] = field(init=False)
    """How many workers each node has."""
    kind_of: IntArray = field(init=False)
    """Each worker's kind of GPU."""
    network: Cluster = field(init=False)
    """The network of its communication: the cluster, or the cluster with its CPUs and servers."""
    program: Program = field(init=False)
    """The positions of a step."""
    positions: FloatArray = field(init=False)
    """Seconds of computing from a step's start to each position, (positions, kinds of GPU)."""
    silent: bool = field(init=False)
    """Whether nothing is communicated: there is one worker, and no server or CPU."""
    coordination: Coordination = field(init=False)
    """How workers coordinate: in collectives, unless sync and aggregation are asynchronous."""
    independent_workers: bool = field(init=False)
    """Whether workers are asynchronous, so that each is simulated as a process of its own."""
    keeps_pace: bool = field(init=False)
    """Whether all workers wait for the slowest, so that in the long run all take the same steps."""
    own_pace: bool = field(init=False)
    """Whether workers may get ahead of others, even if only by a limited number of steps."""
    one_version: bool = field(init=False)
    """Whether all workers compute on versions of the same parameters."""

    def __post_init__(self) -> None:
        sync, aggregation = self.scenario.strategy.sync, self.scenario.strategy.aggregation
        # The fields of a frozen dataclass are set through its dictionary.
        facts = vars(self)
        facts["workers"] = self.cluster.ranks
        facts["workers_of_nodes"] = np.bincount(self.cluster.node_of).tolist()
        facts["network"] = self._network()
        facts["kind_of"] = self.cluster.accelerator_of
        facts["program"] = Program(len(self.model.layers), self.times[0].passes)
        facts["positions"] = np.stack([_positions(times) for times in self.times], axis=1)
        # The GPUs of a cell split one model: together they act as one worker.
        replicas = self.workers // self.scenario.cell
        facts["silent"] = replicas == 1 and not aggregation.single_worker_communicates
        gate = self.gate()
        joint = self.silent or gate.barrier
        facts["coordination"] = Coordination.COLLECTIVE if joint else aggregation.coordination
        facts["independent_workers"] = self.coordination is not Coordination.COLLECTIVE
        facts["keeps_pace"] = gate.quorum == self.workers
        facts["own_pace"] = self.independent_workers or not self.keeps_pace
        facts["one_version"] = sync.one_version and aggregation.one_version
        if not self.silent:
            self._check_gate(gate)

    def _check_gate(self, gate: Gate) -> None:
        """Raise DpsimError if the workers' coordination cannot carry out their gate's rule."""
        strategy, why = self.scenario.strategy, ""
        if self.coordination is Coordination.COLLECTIVE and not gate.in_rounds:
            why = "gradients are judged one by one, which no collective does"
        elif self.coordination is Coordination.PAIRWISE and gate.drops:
            why = "gradients are dropped, and pairs average models"
        if why:
            raise DpsimError(
                f"strategy.aggregation.kind: must be parameter-server with sync "
                f"{strategy.sync.kind}, where {why}, but got {strategy.aggregation.kind!r}"
            )

    def _network(self) -> Cluster:
        used = (model.network for turns in self.collectives.values() for model in turns)
        # The first, because with servers or CPUs the last one, of the loss, is the bare cluster.
        return next((network for network in used if isinstance(network, Cluster)), self.cluster)

    @property
    def by_messages(self) -> bool:
        """Whether transfers are simulated message by message, as flows that share links.

        True if the scenario asks for flows. With `auto`, also with background traffic and on links
        that change, except for a library's collectives, which are bundles.
        """
        kind, setting = self.scenario.run.network_model, self.setting
        return kind == "flows" or (kind == "auto" and setting.disturbed and setting.by_messages)

    def gate(self) -> Gate:
        """Return a new gate, the rule by which workers wait for one another."""
        return self.scenario.strategy.sync.gate(self.workers)

    def scaled(self, factor: float) -> Self:
        """Return the same job with all compute times multiplied by ``factor``."""
        # A new job, so that everything derived from the times is computed again.
        return replace(
            self,
            times=tuple(times.scaled(factor) for times in self.times),
            compute_scale=self.compute_scale * factor,
        )

    def collective(self, name: str, step: int = 0) -> CollectiveModel:
        """Return the model of the collective ``name`` in step ``step``."""
        turns = self.collectives[name]
        # Gossip uses different neighbours in each step, in a repeating order.
        return turns[step % len(turns)]

    def collective_seconds(self, name: str, nbytes: int, step: int = 0) -> float:
        """Return the time of the collective if all workers enter it together (s)."""
        return self.collective(name, step).seconds_from_common_start(nbytes)

    @cached_property
    def period(self) -> int:
        """Steps between two averagings of models, if models are averaged."""
        return averaging_period(self.scenario)

    @cached_property
    def cycle(self) -> int:
        """Steps after which exchanges repeat: from one outer step to the next."""
        return exchange_cycle(self.scenario)

    @cached_property
    def counted(self) -> range:
        """The steps that count, after the warm-up."""
        warmup = self.scenario.run.warmup
        return range(warmup, warmup + counted_steps(self.scenario))


def _positions(times: LayerTimes) -> FloatArray:
    """Return the seconds from a step's start to each position of its program, 0 first."""
    # Backward goes from the last layer to the first.
    one = [times.forward, times.backward[::-1]]
    last = [times.forward, (times.backward + times.merging)[::-1]]
    parts = one * (times.passes - 1) + last
    return np.concatenate([[0.0], np.cumsum(np.concatenate([*parts, [times.optimizer]]))])
