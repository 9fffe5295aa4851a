"""How a machine's own constants are put together.

Log theta = common + deviation of its link family + that of its generation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.hardware import pcie_rate
from dpsim.network.libraries.nccl.machine import NVMESH, PCIE, XGMI, NcclMachine
from dpsim.network.libraries.nccl.parameters import (
    COMMON,
    FULL_NODE,
    NAMES,
    OLD_NCCL,
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


def families(machine: NcclMachine) -> tuple[str, str]:
    """Link families whose deviations a machine takes: the fabric's kind, then its generation."""
    if machine.intra == PCIE:
        # A bus that all GPUs share is described by what is left to each: a little less counts too.
        fast_enough = (g for g in (6, 5, 4) if machine.intra_rate >= 0.9 * pcie_rate(g))
        generation = next(fast_enough, 3)
        return "pcie", f"pcie{generation}" + ("-staged" if machine.staged else "")
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


def transport(machine: NcclMachine) -> str:
    """The transport whose constants a machine takes."""
    return TRANSPORT_KIN.get(machine.transport, machine.transport)


def level_keys(param: Param, machine: NcclMachine) -> tuple[str, str]:
    """Groups of constants that a parameter is looked up in for this machine ("" for none)."""
    if param.level == "net":
        kin = transport(machine)
        # A transport with few rows is known as what it resembles, and how far it lies from that.
        own = machine.transport if machine.transport != kin else ""
        return kin, own
    if param.level == "machine":
        return "", ""
    if param.level == "intra":
        return families(machine)
    return machine.launch, ""


def prior_shift(key: str, name: str) -> float:
    """Where a group's deviation is expected before any data (log)."""
    if key == "pcie" and name in PCIE_CENTRES:
        return float(np.log(PCIE_CENTRES[name] / _CENTRES[name]))
    if key.endswith("-staged"):
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


def physical(logs: FloatArray, machines: Sequence[NcclMachine]) -> dict[str, FloatArray]:
    """Ln theta (machines x constants) -> what `dpsim.network.libraries.nccl.cost.seconds` takes.

    Shares become bytes per second.
    """
    # A trial step of the fit may go far out: exp must stay finite for it to be refused.
    values = np.exp(np.clip(logs.T, -50, 50))
    theta = dict(zip(NAMES, values, strict=True))
    port = _port_rate(theta, machines)
    for protocol in ("LL", "LL128", "S", "N", "P"):
        theta["B_" + protocol] = theta["f_" + protocol] * port
    has_twice_the_channels = [m.graph == 1 for m in machines]
    theta["a_P"] = theta["a_P"] * np.where(has_twice_the_channels, theta["p2p_low"], 1.0)
    theta["o"] = theta["o"] * theta["launch"]
    is_old = [not m.version_at_least(*OLD_NCCL) for m in machines]
    old = np.where(is_old, theta["net_old"], 1.0)
    for protocol in ("LL", "LL128", "Simple"):
        share, hop = "net_e_" + protocol, "net_h_" + protocol
        theta[share] = theta[share] * theta["net_share"] * old
        theta[hop] = theta[hop] * theta["net_lag"]
    # The proxies of a node's GPUs take turns at its cards: posting and polling add up over them.
    fullness = np.array([m.gpus_per_node / FULL_NODE for m in machines])
    theta["net_a"] = theta["net_a"] * theta["net_lag"] * fullness
    has_floor = [m.launch != "default" for m in machines]
    theta["floor"] = np.where(has_floor, theta["floor"], 0.0)
    return theta


def _port_rate(theta: Mapping[str, FloatArray], machines: Sequence[NcclMachine]) -> FloatArray:
    """B/s of one GPU's port, or of what the others leave it of a shared PCIe bus."""
    pcie = np.array([m.intra == PCIE for m in machines])
    shared = np.array([m.shared for m in machines])
    staged = np.array([m.staged for m in machines])
    local = np.array([max(m.gpus_per_node, 2) for m in machines])
    port = np.array([m.intra_rate for m in machines]) * theta["port_share"]
    # A rate that is already stated as shared does not fall again with the number of GPUs.
    port = port * np.where(pcie & ~shared, (2 / local) ** theta["gamma"], 1.0)
    return np.asarray(port * np.where(pcie & staged, theta["staged"], 1.0))
