"""How far NCCL's model may be off on a machine: by what it left of machines like it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dpsim.base.doubt import Doubt
from dpsim.network.libraries.nccl.machine import NcclMachine
from dpsim.network.residuals import nccl_residuals, size_class, unlike

_FEW = ("no machine was", "one machine was", "two machines were")


def machine_doubt(machine: NcclMachine, operation: str, nbytes: float) -> Doubt:
    """The error of NCCL's ``operation``, by its own name, on a machine that is described."""
    kind = machine.generation
    of = f"{machine.gpu}, {kind}"
    return nccl_doubt(
        kind,
        machine.nodes == 1,
        operation,
        size_class(nbytes),
        of=of,
        beyond=beyond(machine),
    )


def nccl_doubt(
    generation: str,
    is_one_node: bool,
    operation: str,
    sizes: str,
    residuals: Mapping[str, Any] | None = None,
    of: str = "",
    beyond: str = "",
) -> Doubt:
    """The error of NCCL's model on machines of a ``generation``.

    ``operation`` by NCCL's name; ``sizes`` is "below 1 MiB" or "from 1 MiB". Where no more than two
    machines of the generation ran the operation, the error is that of what is unlike all families:
    two say less of a third than whole generations that were left out say of the next. So it is of
    what is `beyond` the measured ones. ``residuals`` stand in for the shipped ones.
    """
    table = nccl_residuals() if residuals is None else residuals
    by_operation = {
        family["operation"]: family
        for family in table["families"]
        if generation in family["generations"] and family["sizes"] == sizes
    }
    whole = by_operation.get("any")
    found = by_operation.get(operation)
    machines = found["machines"] if found else 0
    if found is None or machines < len(_FEW):
        # Where the generation has more machines, none of them ran this operation.
        is_rest = whole is None or whole["machines"] == machines
        measured = generation if is_rest else f"{operation} of {generation}"
        return unlike(is_one_node, sizes, f"of {measured} {_FEW[machines]} measured", of, table)
    basis = f"communication: {found['machines']} machines of {found['family']}, each left out"
    if beyond:
        # Errors of more nodes and of fewer are those of one network.
        return replace(unlike(is_one_node, sizes, beyond, of, table), drawn_as=basis)
    return Doubt(basis, table["quantiles"], found["residuals"], of=of)


def beyond(machine: NcclMachine, residuals: Mapping[str, Any] | None = None) -> str:
    """What of ``machine`` is unlike all machines of its generation that were measured; or nothing.

    That is a transport that none of them had (of AMD's, which are one generation over all), and
    twice as many GPUs in a node, or nodes, as the most that were measured.
    """
    kind = machine.generation
    table = nccl_residuals() if residuals is None else residuals
    reach = table["reach"].get(kind)
    if reach is None:
        return ""
    if machine.transport not in reach["transports"]:
        return f"of {kind} over {machine.transport} no machine was measured"
    is_one_node = machine.nodes == 1
    what, asked = ("GPUs", machine.gpus_per_node) if is_one_node else ("nodes", machine.nodes)
    most = reach[what]
    if asked < 2 * most:
        return ""
    return f"of {kind} no machine of {asked:,} {what} was measured, {most} at most"
