"""Convert constants to physical units: shares of a rate become bytes per second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsim.base.arrays import FloatArray
from dpsim.network.libraries.nccl.gpus import full_nvlink_rate
from dpsim.network.libraries.nccl.machine import NVMESH, NVSWITCH, PCIE, NcclMachine
from dpsim.network.libraries.nccl.parameters import FULL_NODE, NAMES, OLD_NCCL

BoolArray = npt.NDArray[np.bool_]
Constants = dict[str, FloatArray]

# Sharpness of the minimum of the loading kernel's and the uplink's rates.
HOST_SHARPNESS = 6.0
LL_SHARE = 0.5  # Half of the bytes of LL are flags, one with each word.


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """The properties of machines, one array each; see `NcclMachine` and `Bus`.

    ``calls`` are the launches that one thread makes one after the other, 0 if there is no floor.
    ``linked`` is the share of its generation's NVLinks that a GPU has or uses, 1 without NVLinks.
    """

    rate: FloatArray
    linked: FloatArray
    local: FloatArray
    on_bus: BoolArray
    staged: BoolArray
    per_uplink: FloatArray
    copy_engine: BoolArray
    sockets: BoolArray
    one_way: BoolArray
    nic_staged: BoolArray
    old: BoolArray
    twice_the_channels: BoolArray
    calls: FloatArray


def facts_of(machines: Sequence[NcclMachine]) -> Facts:
    """Return the facts of these machines, in their order."""
    calls = {"default": 0, "torch": 1}
    return Facts(
        rate=np.array([m.intra_rate for m in machines]),
        linked=np.array([_linked(m) for m in machines]),
        local=np.array([float(m.gpus_per_node) for m in machines]),
        on_bus=np.array([m.intra == PCIE for m in machines]),
        staged=np.array([m.bus.staged for m in machines]),
        per_uplink=np.array([float(m.bus.per_uplink) for m in machines]),
        copy_engine=np.array([m.bus.copy_engine for m in machines]),
        sockets=np.array([m.bus.sockets for m in machines]),
        one_way=np.array([m.bus.one_way for m in machines]),
        nic_staged=np.array([m.nic_staged for m in machines]),
        old=np.array([not m.version_at_least(*OLD_NCCL) for m in machines]),
        twice_the_channels=np.array([m.graph == 1 for m in machines]),
        calls=np.array([float(calls.get(m.launch, m.gpus_per_node)) for m in machines]),
    )


def _linked(machine: NcclMachine) -> float:
    if machine.intra not in (NVSWITCH, NVMESH):
        return 1.0
    return min(machine.intra_rate / full_nvlink_rate(machine.capability), 1.0)


def physical(logs: FloatArray, facts: Facts) -> Constants:
    """Convert ln theta (machines x constants) to the parameters of `cost.seconds`."""
    # exp must stay finite, so that a fit can reject a trial step that goes too far.
    values = np.exp(np.clip(logs.T, -50, 50))
    theta = dict(zip(NAMES, values, strict=True))
    port = _port_rate(theta, facts)
    theta["B_P"] = theta["f_P"] * port
    for protocol in ("LL", "LL128", "S", "N"):
        theta["B_" + protocol] = theta["f_" + protocol] * port * _rings_each_way(facts)
    # Local copies run in the GPU's memory, so fewer links do not slow them down.
    for copy in ("copy", "copy_ag", "copy_rs", "copy_p2p"):
        theta[copy] = theta[copy] * facts.linked
    theta["a_P"] = theta["a_P"] * np.where(facts.twice_the_channels, theta["p2p_low"], 1.0)
    # The launch cost of a machine goes into the floor if there is one.
    theta["o"] = theta["o"] * np.where(facts.calls > 0, 1.0, theta["launch"])
    theta["floor"] = theta["floor"] * facts.calls * theta["launch"]
    theta["chain"] = _chain(theta, facts)
    _network(theta, facts)
    return theta


def _network(theta: Constants, facts: Facts) -> None:
    """Convert the network's constants of each machine, in place."""
    old = np.where(facts.old, theta["net_old"], 1.0)
    host = np.where(facts.nic_staged, theta["net_host"], 1.0)
    theta["net_e_P"] = theta["net_e_P"] * theta["net_share"] * host
    theta["net_e_LL"] = np.full(len(old), LL_SHARE)
    for protocol in ("LL", "LL128", "Simple"):
        share, hop = "net_e_" + protocol, "net_h_" + protocol
        theta[share] = theta[share] * theta["net_share"] * old * host
        theta[hop] = theta[hop] * theta["net_lag"]
    # The proxies of a node's GPUs take turns at its cards, so posting and polling add up.
    theta["net_a"] = theta["net_a"] * theta["net_lag"] * facts.local / FULL_NODE
    theta["net_h_P"] = theta["net_h_P"] * theta["net_lag"]
    # PCIe links are not faster with more channels.
    theta["net_port"] = np.where(facts.on_bus, 1.0, theta["net_port"])


def _port_rate(theta: Mapping[str, FloatArray], facts: Facts) -> FloatArray:
    """Return the B/s of one GPU's port while it sends and receives.

    On PCIe, peers communicate at the rate of a link, across sockets at a share of it. Copies staged
    by the host take each byte up one link and down another: kernels that load across the bus wait
    for it, and GPUs behind one uplink share its rate.
    """
    over_sockets = np.where(facts.sockets, theta["sockets"], 1.0)
    uplink = theta["uplink"] / facts.per_uplink
    kernel = theta["staged"]
    slower = (kernel**-HOST_SHARPNESS + uplink**-HOST_SHARPNESS) ** (-1 / HOST_SHARPNESS)
    through_host = np.where(facts.copy_engine, uplink, slower) * theta["host_share"]
    share = np.where(facts.staged, through_host, over_sockets)
    on_bus = np.where(facts.on_bus, share, 1.0)
    return np.asarray(facts.rate * theta["port_share"] * on_bus)


def _rings_each_way(facts: Facts) -> FloatArray:
    """Return the factor on the port's rate from opposite rings over bridged pairs.

    It is 2 if every GPU has a partner: each ring then has one direction of the links. Direct sends
    do not gain.
    """
    paired = facts.on_bus & facts.one_way & (facts.local % 2 == 0)
    return np.where(paired, 2.0, 1.0)


def _chain(theta: Mapping[str, FloatArray], facts: Facts) -> FloatArray:
    """Return the time of a chain's bytes on PCIe relative to a ring's.

    Two ranks use only one direction of their links. One rank of a chain does not send and one does
    not receive, so fewer bytes cross an uplink.
    """
    ranks = np.maximum(facts.local, 2)
    crossing = np.where(facts.staged & (facts.per_uplink > 1), (ranks - 1) / ranks, 1.0)
    factor = crossing * np.where(ranks == 2, theta["duplex"], 1.0)
    return np.asarray(np.where(facts.on_bus, factor, 1.0))
