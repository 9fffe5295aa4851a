"""What an aggregation may know when it builds the models of its collectives."""

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
    """Whose collectives are timed, and why in words."""

    library: str
    why: str


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """The cluster, what messages cost on it, and how collectives are to be timed.

    ``config`` is the cluster as described, ``cluster`` as built, ``transport`` what was measured.
    ``disturbances(network, workers)`` are the other traffic and the link changes on a network in
    which worker i is rank ``workers[i]``; None where there are none, or a model need not know them.
    ``disturbed``: whether there are any. ``groups``: those that meet, where that is not all.
    ``libraries`` gathers what was chosen for the scenario, and ``cautions`` what no machine does of
    it. ``models`` are those that were made on this very cluster, for other scenarios, too;
    ``placed`` are servers that stand on it.
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
        """The model of one collective operation of all workers, as the scenario wants it timed.

        With ``groups``, or those of the setting, of one in each of them, all at once.
        """
        groups = groups or self.groups
        # Models that are kept are of the cluster as it is built, undisturbed and not measured.
        if self.transport is not None or self._conditions_of(library):
            return self._timed(algorithm, operation, library, groups)
        asked = self._key(algorithm, operation, library, groups)
        if asked not in self.models:
            self.models[asked] = self._timed(algorithm, operation, library, groups)
        return self.models[asked]

    def _key(self, *asked: Hashable) -> Hashable:
        """All that a model depends on besides the cluster, whose models these are."""
        return self.kind, self.costs, *asked

    def _conditions_of(self, library: str) -> Conditions | None:
        """What a model by ``library`` must know of the other traffic and the link changes, if any.

        A library's says what its collective takes alone. What else is on the links it meets there,
        as a bundle.
        """
        if self.disturbances is None or (library != "ideal" and self.kind == "auto"):
            return None
        return self.conditions(self.cluster)

    def _timed(
        self, algorithm: str, operation: str, library: str, groups: Groups | None
    ) -> CollectiveModel:
        conditions = self._conditions_of(library)
        # What was measured holds for an undisturbed network only, and has no say where the scenario
        # asks for a model by name.
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
        """The other traffic and the link changes on ``network``.

        Worker i is its rank ``workers[i]``; left out, rank i.
        """
        if self.disturbances is None:
            return Conditions()
        return self.disturbances(network, self.workers if workers is None else workers)

    def broadcast(self) -> CollectiveModel:
        """The model of a broadcast from rank 0: the library's where it has one, else a tree."""
        if self.library != "ideal":
            try:
                return self.timed("auto", "broadcast", self.library)
            except DpsimError:
                pass  # Gloo and MPI have a model of the all-reduce alone.
        return self.timed("tree", "broadcast")

    def library_for(
        self,
        library: str,
        algorithm: str,
        operation: str = "all-reduce",
        groups: Groups | None = None,
    ) -> tuple[str, CollectiveModel | None]:
        """``library``, or what "auto" is here for an algorithm ("auto" too if none is asked for).

        With it the model of the operation, where that was made to find the library. Measured
        messages, links that are cut and a network model that is asked for are for no library. Which
        it was, and why, goes to the ``libraries``.
        """
        found = AutomaticLibrary(library, _ASKED)
        if library == "auto":
            found = self._automatic(algorithm, operation, groups or self.groups)
        choice = LibraryChoice(found.library, found.why)
        if choice not in self.libraries:
            self.libraries.append(choice)
            if library == "ideal":
                self.cautions.extend(self._beside_ideal())
        return found.library, found.model

    def _beside_ideal(self) -> list[str]:
        """What to say where links are asked to be ideal though a library serves the GPUs."""
        found = automatic_library("auto", self.cluster).library
        if found == "ideal" or self.transport is not None:
            return []
        name = name_for_users(found, self.cluster).lower()
        return [
            f"library ideal on GPUs that {name} serves: links without its launches, protocols and "
            "rates, which no training runs on"
        ]

    def _automatic(self, algorithm: str, operation: str, groups: Groups | None) -> AutomaticLibrary:
        """What "auto" is, and why."""
        if self.transport is not None:
            why = "auto: messages are as the calibration has measured them"
            return AutomaticLibrary("ideal", why)
        if self.kind != "auto":
            return AutomaticLibrary("ideal", f"auto: the network model is to be {self.kind}")
        if any(change.factor == 0 for change in self.conditions(self.cluster).changes):
            why = "auto: around links that are cut messages go other ways, by no library"
            return AutomaticLibrary("ideal", why)
        # The model that answers is the one that will be asked for.
        asked = self._key(algorithm, operation, "nccl", groups)
        chosen = automatic_library(
            algorithm,
            self.cluster,
            operation=operation,
            groups=groups,
            kept=self.models.get(asked),
        )
        if chosen.model is not None:
            self.models[asked] = chosen.model
        return chosen

    @property
    def library(self) -> str:
        """Whose collectives they are; "ideal" where no library is chosen."""
        return self.libraries[0].library if self.libraries else "ideal"

    @property
    def by_messages(self) -> bool:
        """Whether the messages of all collectives are known: a library's are its own matter."""
        return all(each.library == "ideal" for each in self.libraries)

    @property
    def mesh(self) -> Mesh:
        """The workers that meet: all, or those of a group."""
        mesh = self.cluster.mesh
        return mesh if self.groups is None else Mesh(self.groups.members(mesh.ranks).shape[1], None)

    @property
    def workers(self) -> IntArray:
        """The workers as ranks of the cluster: all of them."""
        return ranks_array(self.cluster.ranks)
