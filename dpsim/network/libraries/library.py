"""Collectives as real libraries run them: NCCL, gloo, MPI."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.collectives import IN_NETWORK
from dpsim.network.model import CollectiveModel
from dpsim.topology import Cluster, Network

if TYPE_CHECKING:
    from dpsim.collectives import Groups

Library = Literal["ideal", "nccl", "gloo", "mpi"]
LIBRARIES: tuple[str, ...] = get_args(Library)


@dataclass(frozen=True, slots=True)
class Traits:
    """What a library can do, for those who would otherwise ask for its name.

    ``algorithms``: those that a scenario may ask it for; empty where its model judges itself.
    ``chooses``: whether it takes an algorithm where none is named; links alone need a name.
    ``in_groups``: whether it serves groups of some of the workers. ``broadcasts_in_groups``:
    whether it has a broadcast of its own there. ``on_sockets``: whether its messages go as a
    measured transport times them, through the sockets of hosts. ``in_torch``: whether
    torch.distributed has it among its backends as it is installed. ``weighs_protocols``: whether
    it chooses among algorithms and protocols by size, so that the choice can be explained.
    """

    algorithms: tuple[str, ...] = ()
    chooses: bool = True
    in_groups: bool = True
    broadcasts_in_groups: bool = False
    on_sockets: bool = False
    in_torch: bool = False
    weighs_protocols: bool = False


TRAITS: Mapping[str, Traits] = {
    "ideal": Traits(chooses=False, on_sockets=True),
    "nccl": Traits(broadcasts_in_groups=True, in_torch=True, weighs_protocols=True),
    "gloo": Traits(algorithms=("auto", "ring"), on_sockets=True, in_torch=True),
    "mpi": Traits(algorithms=("auto",), in_groups=False),
}


def chooses(library: str) -> bool:
    """Whether ``library`` takes an algorithm by itself; "auto", which one is yet to be, does."""
    return library not in TRAITS or TRAITS[library].chooses


def default_algorithm(library: str) -> str:
    """What ``library`` runs where no algorithm is named: its own choice, or else the ring."""
    return "auto" if chooses(library) else "ring"


class AutomaticLibrary(NamedTuple):
    """Which library was chosen, why in words, and its ``model``, where that had to be made."""

    library: str
    why: str
    model: CollectiveModel | None = None


def automatic_library(
    restriction: str,
    network: Network,
    *,
    operation: str = "all-reduce",
    groups: Groups | None = None,
    kept: CollectiveModel | None = None,
) -> AutomaticLibrary:
    """What ``library: auto`` is on ``network``, and why.

    NCCL where it serves all GPUs (AMD's by RCCL's figures) and has the algorithm ``restriction``,
    or is free to choose; elsewhere the algorithm alone ("ideal"). Switches of the fabric that
    reduce are no part of NCCL's model, which has those inside nodes. ``kept`` is that model, where
    it has been made before.
    """
    if restriction == IN_NETWORK and getattr(network, "reduces", False):
        return AutomaticLibrary("ideal", "auto: switches of the fabric are to reduce")
    try:
        model = kept or library_model(
            "nccl", restriction, network, operation=operation, groups=groups
        )
    except DpsimError as error:
        # Why NCCL will not do is its own refusal, in words made for users.
        return AutomaticLibrary("ideal", f"auto: {error}")
    why = f"auto: {name_for_users('nccl', network)} serves these GPUs and has the algorithm"
    return AutomaticLibrary("nccl", why, model)


def name_for_users(library: str, network: Network) -> str:
    """What runs on ``network`` where a scenario says ``library``: on AMD's GPUs NCCL is RCCL."""
    if library != "nccl" or not isinstance(network, Cluster):
        return library
    from dpsim.network.libraries.nccl import is_amd

    return "RCCL" if any(is_amd(gpu) for gpu, _ in network.accelerators) else "NCCL"


def library_model(
    library: str,
    restriction: str,
    network: Network,
    *,
    operation: str = "all-reduce",
    itemsize: int = 4,
    groups: Groups | None = None,
) -> CollectiveModel:
    """The model of ``operation`` by ``library``, which is not "ideal", in all ``groups`` at once.

    Held to the algorithm ``restriction`` unless that is "auto". Raises UnknownNameError for a
    library that is not known, DpsimError for what the library does not have.
    """
    make = _MODELS.get(library)
    if make is None:
        raise UnknownNameError("library", library, LIBRARIES)
    traits = TRAITS[library]
    if groups is not None and not traits.in_groups:
        able = " or ".join(name for name, each in TRAITS.items() if each.in_groups)
        raise DpsimError(
            f"library must be {able} in groups of some of the workers, but got {library!r}"
        )
    if traits.algorithms and restriction not in traits.algorithms:
        known = " or ".join(traits.algorithms)
        raise DpsimError(
            f"algorithm must be {known} with library {library}, but got {restriction!r}"
        )
    return make(restriction, network, operation, itemsize, groups)


# Each imports its library's model where it is asked for: NCCL's alone reads a file of constants.


def _nccl(
    restriction: str, network: Network, operation: str, itemsize: int, groups: Groups | None
) -> CollectiveModel:
    from dpsim.network.libraries.nccl import NcclModel

    return NcclModel(
        _cluster("nccl", network),
        operation=operation,
        restriction=restriction,
        itemsize=itemsize,
        groups=groups,
    )


def _gloo(
    restriction: str, network: Network, operation: str, itemsize: int, groups: Groups | None
) -> CollectiveModel:
    from dpsim.network.libraries.gloo import GlooModel

    _check_operation("gloo", operation, GlooModel.operations)
    return GlooModel(network, operation=operation, itemsize=itemsize, groups=groups)


def _mpi(
    restriction: str, network: Network, operation: str, itemsize: int, groups: Groups | None
) -> CollectiveModel:
    from dpsim.network.libraries.mpi import MpiModel

    _check_operation("mpi", operation, MpiModel.operations)
    return MpiModel(_cluster("mpi", network), operation=operation, itemsize=itemsize)


_Make = Callable[[str, Network, str, int, "Groups | None"], CollectiveModel]
_MODELS: Mapping[str, _Make] = {"nccl": _nccl, "gloo": _gloo, "mpi": _mpi}


def _check_operation(library: str, operation: str, known: tuple[str, ...]) -> None:
    if operation not in known:
        raise DpsimError(
            f"operation must be {' or '.join(known)} with library {library}, but got {operation!r}"
        )


def _cluster(library: str, network: Network) -> Cluster:
    if not isinstance(network, Cluster):
        raise DpsimError(
            f"library {library} must have a cluster, whose GPUs and links it knows, but got a "
            "bare switch"
        )
    return network
