"""Assemble a machine's own constants from those that the package ships.

Log theta = common + deviation of its link family + that of its generation. The constants were
fitted on published tables by ``python -m tools.refits.nccl_refit``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.shipped import shipped_yaml
from dpsim.network.libraries.nccl.machine import RCCL, XGMI, NcclMachine
from dpsim.network.libraries.nccl.parameters import (
    COMMON,
    MEASURED_APART,
    NEAREST_TRANSPORT,
    OWN_ONLY,
    PARAMS,
    PCIE_CENTRES,
    STAGED_SHIFT,
    TRANSPORT_SHIFT,
    Param,
)

# ln of a constant by (group, name): the values of the group "common", the deviations of the others.
Known = Mapping[tuple[str, str], float]
_CENTRES = {p.name: p.centre for p in PARAMS}


@cache
def shipped_constants() -> Known:
    """Return the ln of each constant that the package ships, by (group, name)."""
    content = shipped_yaml(files("dpsim.network.libraries.nccl").joinpath("constants.yaml"))
    return {
        (group, name): math.log(entry["value"])
        for group, constants in content["groups"].items()
        for name, entry in constants.items()
    }


def transport(machine: NcclMachine) -> str:
    """Return the transport whose constants a machine uses."""
    return NEAREST_TRANSPORT.get(machine.transport, machine.transport)


def level_keys(param: Param, machine: NcclMachine) -> tuple[str, str]:
    """Return the groups in which a parameter is looked up for this machine ("" for none)."""
    if param.level == "net":
        described = transport(machine)
        # A transport with few rows is described by a similar one, plus its deviation from that.
        own = machine.transport if machine.transport in MEASURED_APART else ""
        return described, RCCL if machine.intra == XGMI else own
    if param.level in ("common", "machine"):
        return "", ""
    if param.level == "intra":
        return machine.families
    return machine.launch, ""


def prior_shift(key: str, name: str) -> float:
    """Return the expected deviation of a group before any data (log)."""
    if key == "pcie" and name in PCIE_CENTRES:
        return float(np.log(PCIE_CENTRES[name] / _CENTRES[name]))
    if key == "pcie-staged":
        return float(np.log(STAGED_SHIFT.get(name, 1.0)))
    return float(np.log(TRANSPORT_SHIFT.get(key, {}).get(name, 1.0)))


def machine_logs(known: Known, machine: NcclMachine) -> FloatArray:
    """Return ln theta of a machine from fitted groups; groups never fitted have their prior."""
    out = np.zeros(len(PARAMS))
    for i, p in enumerate(PARAMS):
        # Parameters known only from a machine's own rows stay at a factor of 1 without them.
        if p.name in OWN_ONLY:
            continue
        groups = [group for group in (COMMON, *level_keys(p, machine)) if group]
        out[i] = sum(known.get((group, p.name), prior_shift(group, p.name)) for group in groups)
    return out
