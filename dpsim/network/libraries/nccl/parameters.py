"""The fitted constants: their names, units and priors.

Rates are shares of a described peak (the port inside a node, the line rate of the network cards),
so that an unmeasured GPU generation or card scales with its description. Its latencies are the mean
of the measured ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dpsim.network.libraries.nccl.machine import RCCL

Level = Literal["common", "intra", "net", "floor", "machine"]


@dataclass(frozen=True)
class Param:
    """A positive constant: unit, prior centre, and the spread (in log) of families around it."""

    name: str
    level: Level
    unit: str
    centre: float
    spread: float
    text: str


# Centres are rough estimates from A100, H100 and B200 tables
# (validate/published/data/README_NCCL.md); spreads are judgement.
PARAMS: tuple[Param, ...] = (
    Param("o", "intra", "s", 6e-6, 0.1, "launch of one call"),
    Param("h_LL", "intra", "s", 1.0e-6, 0.3, "LL latency of one step"),
    Param(
        "d_LL", "intra", "s", 0.2e-6, 0.4, "what a step costs more beyond a few KiB (more channels)"
    ),
    Param("f_LL", "intra", "1", 0.30, 0.1, "LL rate as a share of the port"),
    Param("a_LL128", "intra", "s", 2e-6, 0.4, "fixed extra of LL128"),
    Param("h_LL128", "intra", "s", 1.8e-6, 0.3, "LL128 latency of one step"),
    Param("f_LL128", "intra", "1", 0.6, 0.15, "LL128 rate as a share of the port"),
    Param("a_S", "intra", "s", 12e-6, 0.4, "fixed extra of Simple"),
    Param("h_S", "intra", "s", 3e-6, 0.6, "Simple latency of one step"),
    Param("f_S", "intra", "1", 0.76, 0.06, "Simple rate as a share of the port"),
    Param("r_S", "intra", "1", 0.85, 0.3, "exponent of Simple"),
    Param("copy", "intra", "1", 0.4, 0.3, "weight of a rank's own share (local copy), all-reduce"),
    Param("copy_ag", "intra", "1", 0.4, 0.3, "the same, all-gather"),
    Param("copy_rs", "intra", "1", 0.4, 0.3, "the same, reduce-scatter"),
    Param("a_N", "intra", "s", 25e-6, 0.5, "fixed extra of NVLS"),
    Param("f_N", "intra", "1", 1.03, 0.08, "NVLS bus rate as a share of the port"),
    Param("r_N", "intra", "1", 0.8, 0.2, "exponent of NVLS"),
    Param("h_P", "intra", "s", 0.2e-6, 0.5, "all-to-all latency per peer"),
    Param("a_P", "intra", "s", 6e-6, 0.4, "all-to-all extra beyond the LL threshold"),
    Param("p2p_low", "intra", "1", 0.5, 0.3, "share of a_P left in tables of graph 1"),
    Param("f_P", "intra", "1", 0.72, 0.06, "all-to-all rate as a share of the port"),
    Param("r_P", "intra", "1", 0.85, 0.3, "exponent of all-to-all"),
    Param("copy_p2p", "intra", "1", 0.5, 0.4, "weight of the local copy in all-to-all"),
    Param("int8", "intra", "s/B", 3e-13, 0.5, "extra of one-byte sums per byte and 1/sqrt(n)"),
    Param("staged", "intra", "1", 0.7, 0.3, "PCIe: share left when kernels copy by the host"),
    Param("uplink", "intra", "1", 0.75, 0.2, "PCIe: share of a link to the host that copies fill"),
    Param("sockets", "intra", "1", 0.9, 0.2, "PCIe: share left to copies between sockets"),
    Param("duplex", "intra", "1", 0.7, 0.2, "PCIe: share of its one-way rate when both ways run"),
    Param("net_a", "net", "s", 5e-6, 0.6, "fixed extra of a call over several nodes of 8 GPUs"),
    Param("net_h_LL", "net", "s", 5e-6, 0.3, "LL latency of a network hop"),
    Param("net_h_LL128", "net", "s", 9e-6, 0.3, "LL128 latency of a network hop"),
    Param("net_h_Simple", "net", "s", 15e-6, 0.3, "Simple latency of a network hop"),
    # As inside a node: the cost is the rank's own, not the network's.
    Param("net_h_P", "net", "s", 0.5e-6, 0.5, "what each rank costs a rank that sends to all"),
    Param("net_c_LL", "net", "B/s", 10e9, 0.3, "what LL moves in a channel between nodes"),
    Param("net_e_LL128", "net", "1", 0.9, 0.05, "share of the NICs' line rate that LL128 moves"),
    Param("net_e_Simple", "net", "1", 0.95, 0.05, "the same, Simple"),
    Param("net_e_P", "net", "1", 0.85, 0.15, "the same, from each rank to each"),
    Param("net_host", "net", "1", 0.8, 0.2, "share left where cards reach GPUs through the host"),
    Param("net_feed", "common", "B/s", 40e9, 0.1, "what one-way rings feed a card of 400 Gbit/s"),
    Param(
        "net_port",
        "net",
        "1",
        1.1,
        0.02,
        "port rate in a job over several nodes (more channels) against one node",
    ),
    Param("net_nvls", "net", "1", 0.92, 0.05, "share of the NVLS rate that an NVLSTree keeps"),
    Param("net_tree", "net", "1", 0.97, 0.015, "trees against rings, share of the NICs' rate"),
    Param("net_r", "net", "1", 0.8, 0.2, "exponent over the network"),
    Param("net_q", "net", "1", 6.0, 0.05, "how softly the larger of network and node wins"),
    Param("net_old", "net", "1", 0.8, 0.3, "share of the line rate left to NCCL before 2.9"),
    Param("port_share", "machine", "1", 1.0, 0.03, "this machine's port against its family's"),
    Param("host_share", "machine", "1", 1.0, 0.2, "this machine's way through its host's memory"),
    Param("net_share", "machine", "1", 1.0, 0.05, "this machine's NICs against their line rate"),
    Param(
        "net_lag", "machine", "1", 1.0, 0.1, "this machine's hop latencies against its transport's"
    ),
    Param("launch", "machine", "1", 1.0, 0.1, "this machine's launch cost against its family's"),
    Param("floor", "floor", "s", 20e-6, 0.5, "launch floor of torch; of one thread, a GPU's"),
)
NAMES: tuple[str, ...] = tuple(p.name for p in PARAMS)
OWN_ONLY = frozenset(p.name for p in PARAMS if p.level == "machine")
COMMON = "common"
FULL_NODE = 8  # GPUs per node to which net_a refers
# Before this version of NCCL, network plugins reached a smaller share of the line rate.
OLD_NCCL = (2, 9)
# PCIe has its own centres, because its shares differ much from NVLink's. Local copies cost less,
# since device memory is ten times faster relative to PCIe than to NVLink.
PCIE_CENTRES: Mapping[str, float] = {
    "f_LL": 0.35,
    "f_S": 0.65,
    "f_P": 0.6,
    "f_LL128": 0.5,
    "copy": 0.04,
    "copy_ag": 0.04,
    "copy_rs": 0.04,
    "copy_p2p": 0.05,
}
# Copies through the host's memory increase the latency of a step: they cross the bus twice.
STAGED_SHIFT: Mapping[str, float] = {"h_LL": 1.5, "h_LL128": 1.5, "h_S": 1.5}
# A network of a kind that is not stated, or was never measured, uses the nearest measured kind.
NEAREST_TRANSPORT: Mapping[str, str] = {
    "roce": "ib",
    "unknown": "ib",
    "none": "ib",
    "efa-v1": "efa",
    "efa-v2": "efa",
    # TCPX is the kernel's TCP with payloads placed in GPU memory; in TCPXO the card does the
    # transport.
    "tcpx": "tcp",
    "tcpxo": "efa",
}
# Transports whose own deviation from their family is fitted.
MEASURED_APART = frozenset({"roce", "efa-v1", "efa-v2", "tcpx", "tcpxo"})
# Latency of a hop relative to the mean before any fit (about 6 us on InfiniBand, 30 on EFA, 50 on
# TCP). The bytes in flight are equal, so LL moves less data the longer a hop is.
TRANSPORT_SHIFT: Mapping[str, Mapping[str, float]] = {
    "efa": {
        "net_h_LL": 6.0,
        "net_h_LL128": 4.0,
        "net_h_Simple": 3.0,
        "net_a": 10.0,
        "net_e_Simple": 0.9,
        "net_c_LL": 0.25,
    },
    "tcp": {
        "net_h_LL": 6.0,
        "net_h_LL128": 5.0,
        "net_h_Simple": 4.0,
        "net_a": 2.0,
        "net_e_Simple": 0.8,
        "net_c_LL": 0.25,
    },
    "slingshot": {"net_h_LL": 1.5, "net_h_LL128": 1.5, "net_h_Simple": 1.5, "net_c_LL": 0.25},
    # Later cards write to remote GPUs by themselves: calls begin sooner, hops take as long.
    "efa-v2": {"net_a": 0.3},
    "tcpxo": {"net_a": 0.3},
    # A call over 16 MI300X takes at least 220 us, ten times as long as with NCCL.
    RCCL: {"net_a": 10.0},
    # One thread starts all GPUs of a node one after the other; Python starts one.
    "single-process": {"floor": 0.2},
    "torch": {"floor": 2.0},
}
