"""How a machine's own constants are put together.

Log theta = common + deviation of its link family + that of its generation.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.hardware import pcie_rate
from dpsim.network.libraries.nccl.machine import NVMESH, PCIE, XGMI, NcclMachine
from dpsim.network.libraries.nccl.parameters import (
    COMMON,
    MEASURED_APART,
    OWN_ONLY,
    PARAMS,
    PCIE_CENTRES,
    RCCL,
    STAGED_SHIFT,
    TRANSPORT_KIN,
    TRANSPORT_SHIFT,
    Param,
)

# ln of a constant by (group, name): the values of the group "common", the deviations of the others.
Known = Mapping[tuple[str, str], float]
_CENTRES = {p.name: p.centre for p in PARAMS}


def families(machine: NcclMachine) -> tuple[str, str]:
    """Link families whose deviations a machine takes: the fabric's kind, then its generation."""
    if machine.intra == PCIE:
        return "pcie", "pcie-staged" if machine.bus.staged else ""
    if machine.intra == XGMI:
        return "xgmi", ""
    # Without a switch a GPU reaches each neighbour over only some of its links.
    mesh = "nvlink-mesh" if machine.intra == NVMESH else ""
    return f"nvlink-{_nvlink_generation(machine.capability)}", mesh


def _nvlink_generation(capability: int) -> str:
    """The architecture whose NVLink a GPU of this compute capability (times ten) has."""
    if capability >= 100:
        return "blackwell"
    if capability >= 90:
        return "hopper"
    return "ampere" if capability >= 80 else "volta"


def generation(machine: NcclMachine) -> str:
    """What a machine shares with its like: the transport between nodes, or the fabric inside one.

    Of PCIe the generation, and whether the host stages; of NVLink that of the GPUs.
    """
    if machine.nodes > 1:
        return RCCL if machine.intra == XGMI else machine.transport
    if machine.intra == PCIE:
        known = range(machine.latest_pcie, 3, -1)
        fast_enough = (g for g in known if machine.intra_rate >= 0.9 * pcie_rate(g))
        return f"pcie{next(fast_enough, 3)}{'-staged' if machine.bus.staged else ''}"
    kind, mesh = families(machine)
    return mesh or kind


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
        return families(machine)
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
