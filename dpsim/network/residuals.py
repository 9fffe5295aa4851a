"""Errors of NCCL's model on held-out machines, also used for other libraries and ideal transfers.

The spread of ln(measured / predicted) is in residuals.json beside the constants: by families of
machines, with each machine left out, and for networks of no family, with whole generations left
out. Both are spreads for the next machine or generation, and wider the fewer were measured.
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


def ideal_error(nodes: int, nbytes: float, of: str, caution: str = "") -> ModelError:
    """Return the error of transfers without a library: the one of NCCL on dissimilar networks.

    Libraries without residuals use it too, with ``caution`` as their caution.
    """
    return dissimilar_error(nodes == 1, size_class(nbytes), caution or _IDEAL, of, nccl_residuals())


def described(network: Network) -> str:
    """Return the GPUs and cards of a network: networks that have them in common share errors."""
    kinds = network.kinds if isinstance(network, Cluster) else ()
    return ", ".join(sorted({f"{kind.node.gpu.name} {kind.node.nics.link.name}" for kind in kinds}))


def size_class(nbytes: float) -> str:
    """Return the class of sizes for which errors are known."""
    return "from 1 MiB" if nbytes >= _MIB else "below 1 MiB"


def dissimilar_error(
    is_one_node: bool, sizes: str, caution: str, of: str, table: Mapping[str, Any]
) -> ModelError:
    """Return the error of a network that belongs to no family, inside nodes or between them."""
    found = next(
        each
        for each in table["unlike"]
        if each["is_one_node"] == is_one_node and each["sizes"] == sizes
    )
    basis = "communication: NCCL's tables of all such networks, whole generations left out"
    return ModelError(basis, found["spread"], (caution,), of, source=SOURCE)


def nccl_residuals() -> Mapping[str, Any]:
    """Return the spread of NCCL's errors, by families of machines."""
    found: Mapping[str, Any] = shipped_json("dpsim.network.libraries.nccl", "residuals.json")
    return found
