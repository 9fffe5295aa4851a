"""What every way to meet says of itself: its calls in a step, and what carries them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from enum import Enum
from typing import ClassVar, NamedTuple

from dpsim.base.config import Config
from dpsim.network import CollectiveModel
from dpsim.strategy.aggregation.collective_call import CollectiveCall, Group
from dpsim.strategy.aggregation.offload import HostCopies, OffloadConfig
from dpsim.strategy.aggregation.setting import Setting
from dpsim.topology import Mesh
from dpsim.workload import Model, Program

Turns = tuple[CollectiveModel, ...]
Stages = tuple[tuple[str, int], ...]


class Meeting(Enum):
    """How the workers of a job meet."""

    TOGETHER = "together"
    AT_SERVERS = "at servers"
    IN_PAIRS = "in pairs"


class AllReduceChoice(NamedTuple):
    """Which algorithm an all-reduce has, and whose."""

    algorithm: str
    library: str


class AddingRate(NamedTuple):
    """The field that says how fast servers or processors add gradients up, its value, its words."""

    field: str
    value: float
    words: str


class Aggregation(Config):
    """How gradients (or models) meet.

    What a kind is like stands in class variables. Where its fields decide, it has a property of
    that name.
    """

    meeting: ClassVar[Meeting] = Meeting.TOGETHER
    """How workers meet whose rule lets each go its own way."""
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
    """What is kept outside the GPUs' memory."""
    torch_libraries: ClassVar[tuple[str, ...]] = ("ideal", "auto")
    """Values of ``library`` that real ranks can carry out on processors."""

    @property
    def compresses_replies(self) -> bool:
        """Whether the codec also packs what servers send back."""
        return False

    @property
    def moves_alone(self) -> bool:
        """Whether a worker without others communicates too."""
        return False

    @property
    def all_reduce(self) -> AllReduceChoice | None:
        """The all-reduce of gradients, None where they meet otherwise."""
        return None

    @property
    def adding_rate(self) -> AddingRate | None:
        """How fast gradients are added up beside the GPUs, None where no processor does that."""
        return None

    def between_groups(self) -> Aggregation:
        """How groups of workers meet, which each meet inside in this way."""
        return self

    def server_hosts(self, hosts: int) -> tuple[int, ...]:
        """The host of each server beside workers on ``hosts`` hosts; others come after those."""
        return ()

    def shard_size(self, mesh: Mesh) -> int:
        """Among how many workers a model is divided, each of which holds and updates its part."""
        return 1

    def updated_part(self, model: Model, mesh: Mesh) -> float:
        """The part of the model that a worker updates, at the most."""
        return 1 / self.shard_size(mesh)

    def host_copies(self, model: Model, mesh: Mesh) -> HostCopies:
        """What a worker copies between its GPU and the host, where anything is kept there."""
        raise NotImplementedError

    def searched_nodes(self, model: Model) -> float:
        """Nodes of the autograd graph that the host searches before gradients are reduced."""
        return 0.0

    def copied_bytes(self, model: Model) -> tuple[float, float]:
        """Bytes that each forward and each backward pass moves beside its layers."""
        return 0.0, 0.0

    @abstractmethod
    def calls(
        self, model: Model, program: Program, batch: int, mesh: Mesh
    ) -> tuple[CollectiveCall, ...]:
        """The calls of a step, after which all go on with what they hold in common.

        A pass of the step is of ``batch`` samples a worker, and ``mesh`` are those who meet.
        """

    @abstractmethod
    def averaging(self, model: Model, program: Program) -> tuple[CollectiveCall, ...]:
        """The calls that average the workers' models after a step."""

    @abstractmethod
    def collectives(self, setting: Setting) -> Mapping[str, Turns]:
        """A model for each collective that the calls name: one, or one for each step in turn."""

    def stages(
        self,
        collective: str,
        encoded: tuple[int, ...],
        plain: int,
        *,
        sums_in_flight: bool,
        mesh: Mesh,
    ) -> Stages:
        """The collectives, one after the other, that carry one payload.

        It is of ``plain`` bytes, of which its codec makes parts of ``encoded`` bytes.
        """
        return tuple((collective, nbytes) for nbytes in encoded)

    def communicator(self, collective: str) -> Group:
        """Whose communicator carries one of the ``stages``.

        Successive stages on different communicators become calls of their own.
        """
        return "all"

    def payloads(self, workers: int, *, sums_in_flight: bool) -> int:
        """How many encoded payloads a worker decodes."""
        # What does not add up in flight is gathered: one payload of each worker comes to all.
        return 1 if sums_in_flight else workers

    def repeats_alone(self, workers: int, seed: int, turn: int) -> float:
        """How often a turn's calls are sent in an iteration of each worker, where all act alone."""
        return 1.0

    def consensus(self, model_bytes: int, setting: Setting) -> float:
        """Seconds of a last round after which all workers hold the same model."""
        return 0.0

    def startup(self, model: Model, state_bytes: int, setting: Setting) -> float:
        """Seconds until every worker holds what rank 0 has as a run begins.

        That is the model and the state of its optimiser, ``state_bytes`` in all.
        """
        if setting.cluster.ranks == 1:
            return 0.0
        # DDP does so too: replicas that start apart stay apart, since only gradients are averaged.
        return setting.broadcast().time_together(state_bytes)
