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


class Meeting(Enum):
    """The topology in which workers communicate."""

    TOGETHER = "together"
    AT_SERVERS = "at servers"
    IN_PAIRS = "in pairs"


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

    Class variables hold the properties of a kind. Where one depends on its fields, the kind defines
    a Python property of the same name.
    """

    meeting: ClassVar[Meeting] = Meeting.TOGETHER
    """How workers meet whose rule lets each go its own way."""
    averaged_by: ClassVar[str]
    """The collective that averages whole models, where workers step on their own."""
    one_version: ClassVar[bool] = True
    """Whether workers can share one sequence of parameters; if not, each has its own model."""
    in_groups: ClassVar[bool] = False
    """Whether its collectives can run in groups of workers, all at once."""
    through_host: ClassVar[bool] = False
    """Whether gradients meet inside a node, in what its processor holds of all its GPUs."""
    updates_elsewhere: ClassVar[bool] = False
    """Whether others than the workers take the optimiser's step, where gradients meet."""
    shards: ClassVar[bool] = False
    """Whether each worker holds and updates a part of the model only."""
    timed_by_flows: ClassVar[bool] = False
    """Whether what travels in a step is simulated flow by flow, which takes long."""
    drawn: ClassVar[bool] = False
    """Whether its collectives depend on the seed."""
    single_process: ClassVar[bool] = False
    """Whether one process drives all GPUs, with one model that it hands out."""
    shards_in_part: ClassVar[bool] = False
    """Whether a model is divided among some of those who exchange gradients, not all."""
    units_ahead: ClassVar[int | None] = 0
    """Units of weights that are gathered beyond the one in use; None for all of them."""
    sharding_stage: ClassVar[int | None] = None
    """How much each worker holds a part of only, None where it holds all."""
    reduces_each_pass: ClassVar[bool] = True
    """Whether workers that hold shards of gradients do so after each pass, not whole ones."""
    views_buckets: ClassVar[bool] = False
    """Whether gradients are views of the buckets in which they travel, and not copied to them."""
    rebuilds_buckets: ClassVar[bool] = True
    """Whether buckets follow the order in which gradients were ready, not that of parameters."""
    kept_away: ClassVar[OffloadConfig] = OffloadConfig()
    """The state that is kept outside the GPUs' memory."""
    torch_libraries: ClassVar[tuple[str, ...]] = ("ideal", "auto")
    """Values of ``library`` that real ranks can carry out on processors."""

    @property
    def compresses_replies(self) -> bool:
        """Whether the codec also packs what servers send back."""
        return False

    @property
    def moves_alone(self) -> bool:
        """Whether a single worker communicates as well."""
        return False

    @property
    def all_reduce(self) -> AllReduceChoice | None:
        """The all-reduce of gradients, None where another collective is used."""
        return None

    @property
    def adding_rate(self) -> AddingRate | None:
        """How fast gradients are added outside the GPUs, None where no CPU or server adds them."""
        return None

    def between_groups(self) -> Aggregation:
        """Return how groups of workers exchange that each aggregate inside in this way."""
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
        """Return a worker's copies between its GPU and the host, where it offloads anything."""
        raise NotImplementedError

    def searched_nodes(self, model: Model) -> float:
        """Return how many autograd nodes the host searches before gradients are reduced."""
        return 0.0

    def copied_bytes(self, model: Model) -> tuple[float, float]:
        """Return the bytes that each forward and backward pass moves besides its layers."""
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
        # Payloads that do not add up in flight are gathered: every worker gets one from each
        # worker.
        return 1 if sums_in_flight else workers

    def repeats_alone(self, workers: int, seed: int, turn: int) -> float:
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
        # As in DDP: replicas that start different stay different, since only gradients are
        # averaged.
        return setting.broadcast().time_together(state_bytes)
