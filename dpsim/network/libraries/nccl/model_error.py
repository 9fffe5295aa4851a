"""Error of NCCL's model on a machine, from its residuals on similar machines.

The uncertainty depends on the nearest measured machine. If a machine of the same description was
measured, it is the spread over machines that have such a twin; otherwise over machines of the same
fabric, each left out; otherwise over whole generations left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from dpsim.base.uncertainty import ModelError
from dpsim.network.libraries.nccl.machine import NVMESH, NVSWITCH, PCIE, NcclMachine
from dpsim.network.libraries.nccl.neighbours import machine_from_json
from dpsim.network.residuals import SOURCE, dissimilar_error, nccl_residuals, size_class

_FEW = ("no machine", "only one machine", "only two machines")
# How sentences name a generation of machines.
_KINDS = {
    "efa-v1": "EFA v1",
    "efa-v2": "EFA v2",
    "ib": "InfiniBand",
    "rccl": "RCCL",
    "roce": "RoCE",
    "slingshot": "Slingshot",
    "tcp": "TCP sockets",
    "tcpx": "TCPX",
    "tcpxo": "TCPXO",
    "xgmi": "xGMI",
}
_OTHER = ", other collectives"
_BETWEEN = {
    "ib": "IB/RoCE",
    "roce": "IB/RoCE",
    "efa-v1": "EFA/TCPX",
    "efa-v2": "EFA/TCPX",
    "tcpx": "EFA/TCPX",
    "tcpxo": "EFA/TCPX",
    "tcp": "sockets/Slingshot",
    "slingshot": "sockets/Slingshot",
}
_INSIDE = {NVSWITCH: "NVLink", NVMESH: "NVLink", PCIE: "PCIe"}


class _Measured(NamedTuple):
    """A measured machine, the fields that the model reads, its family, and its row."""

    machine: NcclMachine
    described: NcclMachine
    family: str
    row: Mapping[str, Any]


def family_of(machine: NcclMachine, operation: str) -> str:
    """Return the family of machines and operations with similar errors: multi-node IB/RoCE, say."""
    other = "" if operation == "all_reduce" else _OTHER
    if machine.nodes == 1:
        return f"single-node {_INSIDE.get(machine.intra, 'xGMI')}{other}"
    return f"multi-node {_BETWEEN.get(machine.transport, 'other transports')}{other}"


def machine_error(
    machine: NcclMachine,
    operation: str,
    nbytes: float,
    predicted: float,
    residuals: Mapping[str, Any] | None = None,
) -> ModelError:
    """Return the error of NCCL's ``operation``, by its own name, on a described machine.

    No error makes the ``predicted`` seconds less than the links need. ``residuals`` replace the
    shipped ones.
    """
    found = _error_on_similar_machines(machine, operation, nbytes, residuals)
    least = machine.least_seconds(operation, nbytes)
    return found.at_least(least / predicted) if predicted else found  # a group of one takes 0 s


def _error_on_similar_machines(
    machine: NcclMachine, operation: str, nbytes: float, residuals: Mapping[str, Any] | None
) -> ModelError:
    """Return the error on machines like this one, without the bound of its links."""
    table = nccl_residuals() if residuals is None else residuals
    family, sizes = family_of(machine, operation), size_class(nbytes)
    of = f"{machine.gpu}, {machine.generation}"
    measured = _shipped_machines() if residuals is None else _machines(table)
    near = _nearest(machine, measured)
    found = next(
        (
            each
            for each in table["families"]
            if (each["family"], each["sizes"]) == (family, sizes) and each["machines"] >= len(_FEW)
        ),
        None,
    )
    # Inside nodes, a family contains machines of all generations of a fabric.
    is_known = machine.nodes == 1 and found is not None
    exceeds = beyond(machine, table)
    reason = ("" if is_known else _few(machine, operation, table)) or exceeds
    if found is None or exceeds:
        # Errors on different numbers of nodes belong to the same network.
        reason = reason or f"of {family} fewer than {len(_FEW)} machines were measured"
        model_error = dissimilar_error(machine.nodes == 1, sizes, reason, of, table)
        return replace(model_error, seed_key=_basis(family), nearest=near)
    described = described_as(machine)
    has_twin = any(described == each.described for each in measured)
    spread = found["twins"] if found["twins"] and has_twin else found["spread"]
    extrapolated = (reason,) if reason else ()
    return ModelError(_basis(family), spread, extrapolated, of, source=SOURCE, nearest=near)


def _few(machine: NcclMachine, operation: str, table: Mapping[str, Any]) -> str:
    """Return a sentence if only a few machines of the generation ran the operation, else ""."""
    kind, few = machine.generation, len(_FEW)
    ran = table["reach"].get(kind, {}).get("machines", {})
    machines = ran.get(operation, 0)
    if machines >= few:
        return ""
    were = f"{_FEW[machines]} with {_KINDS.get(kind, kind)}"
    # If the generation has more machines, they ran other operations.
    if machines < max(ran.values(), default=0):
        return f"{were} ran {operation}"
    return f"{were} {'were' if machines > 1 else 'was'} measured"


def beyond(machine: NcclMachine, residuals: Mapping[str, Any] | None = None) -> str:
    """Return how ``machine`` exceeds all measured machines of its generation, or "".

    It does if its transport was not measured (AMD's GPUs count as one generation), or if it has at
    least twice the largest measured number of GPUs in a node, or of nodes.
    """
    kind = machine.generation
    table = nccl_residuals() if residuals is None else residuals
    reach = table["reach"].get(kind)
    words = _KINDS.get(kind, kind)
    if reach is None:
        return f"no machine with {words} was measured"
    if machine.transport not in reach["transports"]:
        return f"no machine with {words} was measured over {machine.transport}"
    is_one_node = machine.nodes == 1
    what, count = ("GPUs", machine.gpus_per_node) if is_one_node else ("nodes", machine.nodes)
    most = reach[what]
    if count < 2 * most:
        return ""
    return f"measured machines with {words} have at most {most} {what}, this one {count:,}"


@cache
def _shipped_machines() -> Sequence[_Measured]:
    return _machines(nccl_residuals())


def _machines(table: Mapping[str, Any]) -> Sequence[_Measured]:
    """Return the measured machines, each with its results."""
    found = []
    for row in table["measured"]:
        machine = machine_from_json(row["machine"])
        family = family_of(machine, "all_reduce")
        found.append(_Measured(machine, described_as(machine), family, row))
    return found


def _in_words(machine: NcclMachine) -> str:
    """Return "2 nodes of 8 h100-sxm, InfiniBand at 3,200 Gbit/s a node (NCCL 2.26.2)", say."""
    gpus = f"{machine.gpus_per_node} {machine.gpu}"
    version = ".".join(map(str, machine.nccl_version or ()))
    library = f" (NCCL {version})" if version else ""
    if machine.nodes == 1:
        return f"{gpus}, {_INSIDE.get(machine.intra, 'xGMI')}{library}"
    network = _KINDS.get(machine.transport, machine.transport)
    rate = f"{machine.nic_rate * 8 / 1e9:,.4g} Gbit/s a node"
    return f"{machine.nodes} nodes of {gpus}, {network} at {rate}{library}"


def _result(row: Mapping[str, Any]) -> str:
    nbytes = row["bytes"]
    size = f"{nbytes / 2**30:,.4g} GiB" if nbytes >= 2**30 else f"{nbytes / 2**20:,.4g} MiB"
    return f"{row['bandwidth_Bps'] / 1e9:.3g} GB/s bus bandwidth at {size}"


def _nearest(machine: NcclMachine, measured: Sequence[_Measured]) -> tuple[str, ...]:
    """Return the results of the most similar measured machine of the same fabric, if any."""
    family = family_of(machine, "all_reduce")
    alike = [each for each in measured if each.family == family]
    if not alike:
        return ()
    nearest = min(alike, key=lambda each: _distance(machine, each.machine))
    return (f"{_in_words(nearest.machine)}: {_result(nearest.row)}",)


def _distance(one: NcclMachine, other: NcclMachine) -> float:
    """Return how different two machines are, in doublings; each different kind counts as two."""
    pairs = (
        (one.nodes, other.nodes),
        (one.gpus_per_node, other.gpus_per_node),
        (one.intra_rate, other.intra_rate),
        (one.nic_rate or 1.0, other.nic_rate or 1.0),
    )
    kinds = (one.generation != other.generation) + (one.bus != other.bus)
    return sum(abs(math.log2(mine / its)) for mine, its in pairs) + 2 * kinds


def described_as(machine: NcclMachine) -> NcclMachine:
    """Return the machine without NCCL's version and the fields that the model does not read."""
    return replace(machine, gpu="", nccl_version=None, graph=0)


def _basis(family: str) -> str:
    return f"communication: measured machines of {family}, each left out"
