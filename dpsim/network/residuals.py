"""What NCCL's model leaves of machines that were left out of its fit, and what follows for others.

The spread of ln(measured / predicted) stands in residuals.json beside the constants: by families of
machines, each left out; and for what is unlike all families, whole generations left out. Both are
of the next machine or generation: the fewer there are, the wider.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsim.base.doubt import Doubt
from dpsim.base.shipped import shipped_json
from dpsim.topology import Cluster, Network

_MIB = 2**20
SOURCE = "communication"
_IDEAL = "transfers are ideal: what a library takes beyond them was not compared on this network"


def ideal_doubt(nodes: int, nbytes: float, of: str, apart: str = _IDEAL) -> Doubt:
    """The error of transfers without a library: that of NCCL's where nothing like it was known.

    Of libraries without residuals, too, which say what is known of them (``apart``).
    """
    return unlike(nodes == 1, size_class(nbytes), apart, of, nccl_residuals())


def described(network: Network) -> str:
    """The GPUs and cards of a network, whose errors are the same on as many nodes as you like."""
    kinds = network.kinds if isinstance(network, Cluster) else ()
    return ", ".join(sorted({f"{kind.node.gpu.name} {kind.node.nics.link.name}" for kind in kinds}))


def size_class(nbytes: float) -> str:
    """Return the class of sizes that errors are known of."""
    return "from 1 MiB" if nbytes >= _MIB else "below 1 MiB"


def unlike(is_one_node: bool, sizes: str, apart: str, of: str, table: Mapping[str, Any]) -> Doubt:
    """The error inside nodes or between them of what ``apart`` says is unlike all families."""
    found = next(
        each
        for each in table["unlike"]
        if each["is_one_node"] == is_one_node and each["sizes"] == sizes
    )
    basis = "communication: NCCL's tables of all such networks, whole generations left out"
    return Doubt(basis, found["spread"], (apart,), of, source=SOURCE)


def nccl_residuals() -> Mapping[str, Any]:
    """The spread of NCCL's errors, by families of machines."""
    found: Mapping[str, Any] = shipped_json("dpsim.network.libraries.nccl", "residuals.json")
    return found
