"""Collectives as real libraries run them: NCCL, gloo, MPI."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.collectives import IN_NETWORK
from dpsim.network.collective_models import CollectiveModel
from dpsim.topology import Cluster, Network

if TYPE_CHECKING:
    from dpsim.collectives import Groups

Library = Literal["ideal", "nccl", "gloo", "mpi"]
LIBRARIES: tuple[str, ...] = get_args(Library)


@dataclass(frozen=True, slots=True)
class Traits:
    """The abilities of a library, so that callers need not check its name.

    ``algorithms``: the algorithms that a scenario may request; empty if the model checks them.
    ``chooses``: it selects an algorithm if none is named. ``in_groups``: it supports groups of some
    of the workers. ``broadcasts_in_groups``: it has a broadcast in groups. ``on_sockets``: its
    messages use the sockets of hosts, so that a measured transport times them. ``in_torch``:
    torch.distributed includes it as a backend. ``weighs_protocols``: it chooses among algorithms
    and protocols by size, so that the choice can be explained.
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
    """Return whether ``library`` selects an algorithm itself; true for "auto"."""
    return library not in TRAITS or TRAITS[library].chooses


def default_algorithm(library: str) -> str:
    """Return the algorithm to use if none is named: "auto" if ``library`` chooses, else "ring"."""
    return "auto" if chooses(library) else "ring"


class AutomaticLibrary(NamedTuple):
    """The chosen library, the reason, and its ``model`` if one was built."""

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
    """Return the library that ``library: auto`` selects on ``network``, and the reason.

    It is NCCL if that supports all GPUs (AMD's as RCCL) and has the algorithm ``restriction``, or
    may choose; otherwise "ideal". NCCL's model covers reducing switches inside nodes, but not in
    the fabric. ``kept`` is NCCL's model if it exists already.
    """
    if restriction == IN_NETWORK and getattr(network, "reduces", False):
        return AutomaticLibrary("ideal", "auto: switches of the fabric are to reduce")
    try:
        model = kept or library_model(
            "nccl", restriction, network, operation=operation, groups=groups
        )
    except DpsimError as error:
        # The reason is NCCL's own error message, which is written for users.
        return AutomaticLibrary("ideal", f"auto: {error}")
    why = f"auto: {name_for_users('nccl', network)} serves these GPUs and has the algorithm"
    return AutomaticLibrary("nccl", why, model)


def name_for_users(library: str, network: Network) -> str:
    """Return the name of ``library`` on ``network``: on AMD's GPUs NCCL is RCCL."""
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
    """Return the model of ``operation`` by ``library``, not "ideal", in all ``groups`` at once.

    Restricted to the algorithm ``restriction`` unless that is "auto". Raises UnknownNameError for
    an unknown library, DpsimError for operations or algorithms that the library lacks.
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


# Each function imports its library's model on demand, because NCCL's reads a file of constants.


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
