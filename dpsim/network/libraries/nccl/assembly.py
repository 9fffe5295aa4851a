"""How a machine's own constants are put together.

Log theta = common + deviation of its link family + that of its generation.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.network.libraries.nccl.machine import RCCL, XGMI, NcclMachine
from dpsim.network.libraries.nccl.parameters import (
    COMMON,
    MEASURED_APART,
    OWN_ONLY,
    PARAMS,
    PCIE_CENTRES,
    STAGED_SHIFT,
    TRANSPORT_KIN,
    TRANSPORT_SHIFT,
    Param,
)

# ln of a constant by (group, name): the values of the group "common", the deviations of the others.
Known = Mapping[tuple[str, str], float]
_CENTRES = {p.name: p.centre for p in PARAMS}


def transport(machine: NcclMachine) -> str:
    """The transport whose constants a machine takes."""
    return TRANSPORT_KIN.get(machine.transport, machine.transport)


def level_keys(param: Param, machine: NcclMachine) -> tuple[str, str]:
    """Groups of constants that a parameter is looked up in for this machine ("" for none)."""
    if param.level == "net":
        kin = transport(machine)
        # A transport with few rows is known as what it resembles, and how far it lies from that.
        own = machine.transport if machine.transport in MEASURED_APART else ""
        return kin, RCCL if machine.intra == XGMI else own
    if param.level in ("common", "machine"):
        return "", ""
    if param.level == "intra":
        return machine.families
    return machine.launch, ""


def prior_shift(key: str, name: str) -> float:
    """Where a group's deviation is expected before any data (log)."""
    if key == "pcie" and name in PCIE_CENTRES:
        return float(np.log(PCIE_CENTRES[name] / _CENTRES[name]))
    if key == "pcie-staged":
        return float(np.log(STAGED_SHIFT.get(name, 1.0)))
    return float(np.log(TRANSPORT_SHIFT.get(key, {}).get(name, 1.0)))


def machine_logs(known: Known, machine: NcclMachine) -> FloatArray:
    """Ln theta of a machine from fitted groups; a group that was never fitted sits at its prior."""
    out = np.zeros(len(PARAMS))
    for i, p in enumerate(PARAMS):
        # What only a machine's own rows can say stays at a factor of 1 without them.
        if p.name in OWN_ONLY:
            continue
        groups = [group for group in (COMMON, *level_keys(p, machine)) if group]
        out[i] = sum(known.get((group, p.name), prior_shift(group, p.name)) for group in groups)
    return out
