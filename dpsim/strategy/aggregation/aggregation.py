"""The base of all kinds of aggregation: a step's calls, and the collectives that carry them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from enum import Enum
from typing import ClassVar, NamedTuple

from dpsim.base.kinds import KindConfig
from dpsim.network import CollectiveModel
from dpsim.strategy.aggregation.collective_call import Calls, Group, whole_model
from dpsim.strategy.aggregation.offload import HostCopies, OffloadConfig
from dpsim.strategy.aggregation.setting import Setting
from dpsim.topology import Mesh
from dpsim.workload import Model, Program

Turns = tuple[CollectiveModel, ...]
Stages = tuple[tuple[str, int], ...]


class Coordination(Enum):
    """How workers coordinate: in collectives of all, at servers, or in pairs."""

    COLLECTIVE = "collective"
    SERVERS = "servers"
    PAIRWISE = "pairwise"


class Sent(NamedTuple):
    """A payload of ``plain`` bytes, which its codec encodes into parts of ``encoded`` bytes."""

    encoded: tuple[int, ...]
    plain: int
    sums_in_flight: bool = True


class AllReduceChoice(NamedTuple):
    """The algorithm of an all-reduce, and the library that provides it."""

    algorithm: str
    library: str


class AddingRate(NamedTuple):
    """The rate at which servers or processors add gradients: its field, value and description."""

    field: str
    value: float
    words: str


class Aggregation(KindConfig):
    """The aggregation of gradients (or models).

    Class variables hold the properties of a kind. If one depends on its fields, the kind defines a
    Python property of the same name.
    """

    coordination: ClassVar[Coordination] = Coordination.COLLECTIVE
    """How workers coordinate if the synchronisation is asynchronous."""
    averaged_by: ClassVar[str]
    """The collective that averages whole models, if workers take steps on their own."""
    one_version: ClassVar[bool] = True
    """Whether workers can share one sequence of parameters; if not, each has its own model."""
    in_groups: ClassVar[bool] = False
    """Whether its collectives can run in all groups of workers at the same time."""
    through_host: ClassVar[bool] = False
    """Whether the gradients of a node's GPUs are added up in its host memory."""
    updates_elsewhere: ClassVar[bool] = False
    """Whether servers or CPUs apply the optimiser's update, instead of the workers."""
    shards: ClassVar[bool] = False
    """Whether each worker holds and updates only a part of the model."""
    timed_by_flows: ClassVar[bool] = False
    """Whether the transfers of a step are simulated flow by flow, which is slow."""
    is_random: ClassVar[bool] = False
    """Whether its collectives depend on the seed."""
    single_process: ClassVar[bool] = False
    """Whether one process drives all GPUs and copies its model to them."""
    shards_in_part: ClassVar[bool] = False
    """Whether a model is sharded among only some of the workers that exchange gradients."""
    units_ahead: ClassVar[int | None] = 0
    """Units of weights that are gathered in advance of the one in use; None for all of them."""
    sharding_stage: ClassVar[int | None] = None
    """The ZeRO stage; None if each worker holds the whole model, gradients and optimiser state."""
    reduces_each_pass: ClassVar[bool] = True
    """Whether gradients are reduced after each pass, rather than added up over passes."""
    views_buckets: ClassVar[bool] = False
    """Whether gradients are views of their buckets, so that they are not copied into them."""
    rebuilds_buckets: ClassVar[bool] = True
    """Whether buckets follow the order in which gradients are ready, not the parameters' order."""
    offloading: ClassVar[OffloadConfig] = OffloadConfig()
    """The state that is kept outside the GPUs' memory."""
    torch_libraries: ClassVar[tuple[str, ...]] = ("ideal", "auto")
    """Values of ``library`` that real ranks can run on CPUs."""

    @property
    def compresses_replies(self) -> bool:
        """Whether the codec also compresses the servers' replies."""
        return False

    @property
    def single_worker_communicates(self) -> bool:
        """Whether even a single worker communicates, such as with servers or its CPU."""
        return False

    @property
    def all_reduce(self) -> AllReduceChoice | None:
        """The all-reduce of gradients, None if another collective is used."""
        return None

    @property
    def adding_rate(self) -> AddingRate | None:
        """The rate at which CPUs or servers add gradients; None if the GPUs do."""
        return None

    def between_groups(self) -> Aggregation:
        """Return the aggregation between groups, which use this one internally."""
        return self

    def server_hosts(self, hosts: int) -> tuple[int, ...]:
        """Return the host of each server, for workers on ``hosts`` hosts.

        Servers that are not on the workers' hosts are numbered after them.
        """
        return ()

    def shard_size(self, mesh: Mesh) -> int:
        """Return the number of workers among which a model is sharded."""
        return 1

    def updated_part(self, model: Model, mesh: Mesh) -> float:
        """Return the largest part of the model that a worker updates."""
        return 1 / self.shard_size(mesh)

    def host_copies(self, model: Model, mesh: Mesh) -> HostCopies:
        """Return a worker's copies between its GPU and the host, if it offloads anything."""
        raise NotImplementedError

    def searched_nodes(self, model: Model) -> float:
        """Return how many autograd nodes the host searches before gradients are reduced."""
        return 0.0

    def copied_bytes(self, model: Model) -> tuple[float, float]:
        """Return the bytes that a forward and a backward pass copy in addition to their layers'."""
        return 0.0, 0.0

    @abstractmethod
    def calls(self, model: Model, program: Program, batch: int, mesh: Mesh) -> Calls:
        """Return the calls of a step, after which all workers continue with the common result.

        Each pass of the step processes ``batch`` samples per worker; ``mesh`` holds the workers
        that exchange.
        """

    def averaging(self, model: Model, program: Program) -> Calls:
        """Return the calls that average the workers' models after a step."""
        return whole_model(model, program, self.averaged_by)

    @abstractmethod
    def collectives(self, setting: Setting) -> Mapping[str, Turns]:
        """Return a model for each collective that the calls name: one, or one per step in turn."""

    def stages(self, collective: str, sent: Sent, mesh: Mesh) -> Stages:
        """Return the successive collectives that carry one payload."""
        return tuple((collective, nbytes) for nbytes in sent.encoded)

    def communicator(self, collective: str) -> Group:
        """Return the communicator that carries one of the ``stages``.

        Successive stages on different communicators become separate calls.
        """
        return "all"

    def payloads(self, workers: int, *, sums_in_flight: bool) -> int:
        """Return the number of encoded payloads that a worker decodes."""
        # Payloads that do not add up in flight are gathered: every worker gets all of them.
        return 1 if sums_in_flight else workers

    def sends_per_iteration(self, workers: int, seed: int, turn: int) -> float:
        """Return how often a turn's calls are sent per iteration of asynchronous workers."""
        return 1.0

    def consensus(self, model_bytes: int, setting: Setting) -> float:
        """Return the seconds of a final round after which all workers hold the same model."""
        return 0.0

    def startup(self, model: Model, state_bytes: int, setting: Setting) -> float:
        """Return the seconds until every worker holds the initial state of rank 0.

        The state is the model and its optimiser's state, ``state_bytes`` in all.
        """
        if setting.cluster.ranks == 1:
            return 0.0
        # As in DDP, since only gradients are averaged: replicas must start equal.
        return setting.broadcast().seconds_from_common_start(state_bytes)
