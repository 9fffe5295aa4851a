"""The input from which an aggregation builds the models of its collectives."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dpsim.base.arrays import IntArray
from dpsim.base.errors import DpsimError
from dpsim.collectives import ranks_array
from dpsim.hardware import Transport
from dpsim.network import (
    CollectiveModel,
    Conditions,
    MessageCosts,
    ModelKind,
    named_model,
)
from dpsim.network.libraries import AutomaticLibrary, automatic_library, name_for_users
from dpsim.topology import Cluster, ClusterConfig, Mesh

if TYPE_CHECKING:
    from dpsim.collectives import Groups
    from dpsim.network import Servers


_ASKED = "as asked for"


@dataclass(frozen=True, slots=True)
class LibraryChoice:
    """The library whose collectives are timed, and the reason in words."""

    library: str
    why: str


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """The cluster, the costs of messages on it, and how collectives are timed.

    ``config`` is the cluster as described, ``cluster`` as built, ``transport`` the measured
    messages. ``disturbances(network, workers)`` returns the background traffic and link changes on
    a network in which worker i is rank ``workers[i]``; None if there are none, or if models can
    ignore them. ``disturbed``: whether there are any. ``groups``: the groups that exchange, unless
    all workers do. ``libraries`` collects the scenario's library choices, and ``cautions`` its
    unrealistic assumptions. ``models`` are the models already built on this cluster, also for other
    scenarios; ``placed`` are the servers already placed on it.
    """

    config: ClusterConfig
    cluster: Cluster
    costs: MessageCosts
    kind: ModelKind
    disturbances: Callable[[Cluster, IntArray], Conditions] | None
    sums_in_flight: bool
    seed: int
    transport: Transport | None = None
    groups: Groups | None = None
    libraries: list[LibraryChoice] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)
    models: dict[Hashable, CollectiveModel] = field(default_factory=dict)
    placed: dict[Hashable, Servers] = field(default_factory=dict)
    disturbed: bool = False

    def timed(
        self,
        algorithm: str,
        operation: str = "all-reduce",
        library: str = "ideal",
        groups: Groups | None = None,
    ) -> CollectiveModel:
        """Return the model of one collective operation of all workers, timed as the scenario asks.

        With ``groups``, or the setting's groups, the operation runs in each of them at once.
        """
        groups = groups or self.groups
        # Only models of the undisturbed cluster, without measured messages, are cached.
        if self.transport is not None or self._conditions_of(library):
            return self._timed(algorithm, operation, library, groups)
        key = self._key(algorithm, operation, library, groups)
        if key not in self.models:
            self.models[key] = self._timed(algorithm, operation, library, groups)
        return self.models[key]

    def _key(self, *key: Hashable) -> Hashable:
        """Return all that a model depends on besides the cluster, which owns the cache."""
        return self.kind, self.costs, *key

    def _conditions_of(self, library: str) -> Conditions | None:
        """Return the background traffic and link changes that a model of ``library`` uses, if any.

        A library's model times its collective without other traffic, which is simulated separately,
        with the collective as a bundle.
        """
        if self.disturbances is None or (library != "ideal" and self.kind == "auto"):
            return None
        return self.conditions(self.cluster)

    def _timed(
        self, algorithm: str, operation: str, library: str, groups: Groups | None
    ) -> CollectiveModel:
        conditions = self._conditions_of(library)
        # Measured times hold only for an undisturbed network, and are not used if the scenario
        # names a network model.
        undisturbed = self.kind == "auto" and not conditions
        if self.transport is not None and undisturbed and groups is None:
            from dpsim.network import transport_model

            found = transport_model(
                algorithm,
                self.cluster,
                self.transport,
                operation=operation,
                library=library,
                gamma=self.costs.gamma,
            )
            if found is not None:
                return found
        return named_model(
            self.kind,
            algorithm,
            self.cluster,
            self.costs,
            operation=operation,
            library=library,
            groups=groups,
            conditions=conditions,
        )

    def conditions(self, network: Cluster, workers: IntArray | None = None) -> Conditions:
        """Return the background traffic and the link changes on ``network``.

        Worker i is its rank ``workers[i]``; rank i if left out.
        """
        if self.disturbances is None:
            return Conditions()
        return self.disturbances(network, self.workers if workers is None else workers)

    def broadcast(self) -> CollectiveModel:
        """Return the model of a broadcast from rank 0: the library's if it has one, else a tree."""
        if self.library != "ideal":
            try:
                return self.timed("auto", "broadcast", self.library)
            except DpsimError:
                pass  # Gloo and MPI have only a model of the all-reduce.
        return self.timed("tree", "broadcast")

    def library_for(
        self,
        library: str,
        algorithm: str,
        operation: str = "all-reduce",
        groups: Groups | None = None,
    ) -> tuple[str, CollectiveModel | None]:
        """Return ``library``, or the library that "auto" selects for an algorithm ("auto": any).

        It also returns the operation's model, if it was built to find the library. "auto" selects
        "ideal" if messages were measured, links are cut, or a network model is requested. The
        choice and its reason are appended to ``libraries``.
        """
        found = AutomaticLibrary(library, _ASKED)
        if library == "auto":
            found = self._automatic(algorithm, operation, groups or self.groups)
        choice = LibraryChoice(found.library, found.why)
        if choice not in self.libraries:
            self.libraries.append(choice)
            if library == "ideal":
                self.cautions.extend(self._cautions_of_ideal())
        return found.library, found.model

    def _cautions_of_ideal(self) -> list[str]:
        """Return a caution if a library supports the GPUs, so that ideal links are unrealistic."""
        found = automatic_library("auto", self.cluster).library
        if found == "ideal" or self.transport is not None:
            return []
        name = name_for_users(found, self.cluster).lower()
        return [
            f"library ideal on GPUs that {name} serves: links without its launches, protocols and "
            "rates, which no training runs on"
        ]

    def _automatic(self, algorithm: str, operation: str, groups: Groups | None) -> AutomaticLibrary:
        """Return the library that "auto" selects, and why."""
        if self.transport is not None:
            why = "auto: messages are as the calibration has measured them"
            return AutomaticLibrary("ideal", why)
        if self.kind != "auto":
            return AutomaticLibrary("ideal", f"auto: the network model is to be {self.kind}")
        if any(change.factor == 0 for change in self.conditions(self.cluster).changes):
            why = "auto: around links that are cut messages go other ways, by no library"
            return AutomaticLibrary("ideal", why)
        # The model that is checked here is the one that is used later.
        key = self._key(algorithm, operation, "nccl", groups)
        chosen = automatic_library(
            algorithm,
            self.cluster,
            operation=operation,
            groups=groups,
            kept=self.models.get(key),
        )
        if chosen.model is not None:
            self.models[key] = chosen.model
        return chosen

    @property
    def library(self) -> str:
        """The library of the collectives; "ideal" if none is chosen."""
        return self.libraries[0].library if self.libraries else "ideal"

    @property
    def by_messages(self) -> bool:
        """Whether the messages of all collectives are known; a library hides its own."""
        return all(each.library == "ideal" for each in self.libraries)

    @property
    def mesh(self) -> Mesh:
        """The workers that exchange: all, or the workers of a group."""
        mesh = self.cluster.mesh
        return mesh if self.groups is None else Mesh(self.groups.members(mesh.ranks).shape[1], None)

    @property
    def workers(self) -> IntArray:
        """The workers as ranks of the cluster: all of them."""
        return ranks_array(self.cluster.ranks)
