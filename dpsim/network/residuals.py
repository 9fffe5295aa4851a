"""Residuals of NCCL's model on machines left out of its fit, and the errors of others.

The spread of ln(measured / predicted) is in residuals.json beside the constants: by families of
machines, each left out, and for networks unlike all families, with whole generations left out. Both
apply to the next machine or generation: the fewer there are, the wider.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsim.base.shipped import shipped_json
from dpsim.base.uncertainty import ModelError
from dpsim.topology import Cluster, Network

_MIB = 2**20
SOURCE = "communication"
_IDEAL = "transfers are ideal: a library's overhead on this network was not measured"


def ideal_error(nodes: int, nbytes: float, of: str, apart: str = "") -> ModelError:
    """Return the error of transfers without a library, taken from NCCL on dissimilar networks.

    It is also used for libraries without residuals, whose own caution is ``apart``.
    """
    return unlike(nodes == 1, size_class(nbytes), apart or _IDEAL, of, nccl_residuals())


def described(network: Network) -> str:
    """Return the GPUs and cards of a network, which share errors on any number of nodes."""
    kinds = network.kinds if isinstance(network, Cluster) else ()
    return ", ".join(sorted({f"{kind.node.gpu.name} {kind.node.nics.link.name}" for kind in kinds}))


def size_class(nbytes: float) -> str:
    """Return the class of sizes for which errors are known."""
    return "from 1 MiB" if nbytes >= _MIB else "below 1 MiB"


def unlike(
    is_one_node: bool, sizes: str, apart: str, of: str, table: Mapping[str, Any]
) -> ModelError:
    """Return the error, inside nodes or between them, of a network that belongs to no family."""
    found = next(
        each
        for each in table["unlike"]
        if each["is_one_node"] == is_one_node and each["sizes"] == sizes
    )
    basis = "communication: NCCL's tables of all such networks, whole generations left out"
    return ModelError(basis, found["spread"], (apart,), of, source=SOURCE)


def nccl_residuals() -> Mapping[str, Any]:
    """Return the spread of NCCL's errors, by families of machines."""
    found: Mapping[str, Any] = shipped_json("dpsim.network.libraries.nccl", "residuals.json")
    return found
