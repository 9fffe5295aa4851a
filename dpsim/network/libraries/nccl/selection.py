"""NCCL's own selection of the algorithm and protocol for a call of S bytes.

    t(a, p) = latency(a, p) + S / bandwidth(a, p),   choice = argmin over (a, p)

Source: NVIDIA/nccl@5067397c (2.30.7), src/graph/tuning.cc and topo.h. It is only a selector: its
times are 10 to 60 % optimistic, but its switch points are those of the real library, so
`dpsim.network.libraries.nccl.cost` times the branch that it selects. Latencies here are in
microseconds and bandwidths in GB/s (1e9), as in NCCL's tables.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.network.libraries.nccl.machine import NVMESH, NVSWITCH, XGMI, NcclMachine

Choice = tuple[str, str]

PROTOCOLS = ("LL", "LL128", "Simple")
_LL, _LL128, _SIMPLE = range(3)  # indices in the tables below
CHAINS = ("broadcast", "reduce")

# NCCL's tables, by protocol: LL, LL128, Simple.
BASE = {"tree": (6.8, 14.0, 8.4), "ring": (6.6, 14.0, 8.4)}
HARDWARE = {
    "nvlink": {"tree": (0.6, 1.25, 4.0), "ring": (0.6, 1.9, 3.4)},
    "pci": {"tree": (1.0, 1.9, 4.0), "ring": (1.0, 2.5, 5.7)},
    "net": {"tree": (5.0, 8.5, 14.0), "ring": (2.7, 4.0, 14.0)},
}
NVLS_LATENCY, NVLSTREE_NET = 25.0, 20.9
# rows Volta, Ampere, Hopper, Blackwell; columns 1, 2, more nodes
LL_MAX = ((39.0, 39.0, 20.4), (87.7, 22.5, 19.0), (141.0, 45.0, 35.0), (282.0, 90.0, 70.0))
RING_LL128_PER_CHANNEL = (20.0, 20.0, 36.7, 40.0)
# The least rate of a node with ring LL128. Blackwell: with the search's 8 channels of 40, LL128
# would end too early, with twice as many it would begin too early; int8 all-reduces on 8 B200 use
# it at 16 MiB but not yet at 8, which requires 522 to 556 GB/s.
RING_LL128_LEAST = (0.0, 0.0, 0.0, 540.0)
TREE_LL128_PER_CHANNEL = ((20.0,) * 3, (20.0,) * 3, (36.7, 36.7, 29.0), (55.6, 31.67, 20.0))
TREE_PER_CHANNEL = ((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (38.7, 41.4, 36.0), (70.0, 42.8, 24.0))
NVLS_EFFICIENCY = (0.0, 0.0, 0.85, 0.74)
NVLS_SPEEDS = {2: (60, 50, 40, 30, 24, 20, 15, 12), 3: (90, 80, 70, 60, 50, 45, 40, 30, 24, 20)}
# Result of the graph search on a full NVSwitch node: (channels, GB/s each). Blackwell tables have
# two kinds, see NcclMachine.graph.
NVSWITCH_GRAPH = ((6, 20.0), (12, 20.0), (12, 30.0), (8, 90.0))
# By powers of two from 64 B: NCCL's own correction of trees at medium sizes, where they deviate
# from its linear estimate.
TREE_CORRECTION = {
    "LL": (
        1,
        1,
        1,
        1,
        0.9,
        0.8,
        0.7,
        0.7,
        0.7,
        0.7,
        0.6,
        0.5,
        0.4,
        0.4,
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
        1,
        1,
        1,
        1,
        1,
    ),
    "LL128": (
        1,
        1,
        1,
        1,
        1,
        0.9,
        0.8,
        0.8,
        0.8,
        0.7,
        0.6,
        0.6,
        0.6,
        0.6,
        0.6,
        0.6,
        0.8,
        0.9,
        0.9,
        0.9,
        0.9,
        1,
        1,
        1,
    ),
    "Simple": (
        0.9,
        0.9,
        0.9,
        0.9,
        0.9,
        0.9,
        0.9,
        0.8,
        0.7,
        0.6,
        0.6,
        0.5,
        0.5,
        0.5,
        0.5,
        0.6,
        0.7,
        0.8,
        0.7,
        0.7,
        0.8,
        0.9,
        0.9,
        0.9,
    ),
}
NET_OVERHEAD = 1.0
# On two nodes trees are rated by bwIntra, which the search raises up to twice bwInter.
TREE_INTRA_OVER_INTER = 2.0
# On several nodes the search lays out a channel for each card and then doubles them.
CHANNELS_PER_CARD, MOST_CHANNELS = 2, 16
GB = 1e9


@dataclass(frozen=True)
class _Graph:
    """The assumed result of NCCL's topology search: total channels and GB/s."""

    row: int
    column: int
    channels: int
    ring_bus: float
    tree_bus: float
    nvlink: bool


def _graph(machine: NcclMachine) -> _Graph:
    # Ampere, Hopper, Blackwell; older GPUs share the first row.
    row = bisect_right((80, 90, 100), machine.capability)
    nvlink = machine.intra in (NVSWITCH, NVMESH)
    channels, speed = NVSWITCH_GRAPH[row]
    intra = channels * speed if machine.intra == NVSWITCH else machine.intra_rate / GB
    ring = tree = intra
    if machine.nodes > 1:
        nic = machine.nic_rate / GB
        if machine.gpus_per_node == 1:
            ring = tree = nic
        else:
            in_tree = nic * TREE_INTRA_OVER_INTER if machine.nodes == 2 else nic
            ring, tree = min(intra, nic), min(intra, in_tree)
        if nvlink:
            channels = min(CHANNELS_PER_CARD * machine.gpus_per_node, MOST_CHANNELS)
    channels *= 2 if machine.graph == 1 else 1
    column = min(machine.nodes, 3) - 1
    return _Graph(row, column, channels, ring, tree, nvlink)


def _ring(machine: NcclMachine, g: _Graph, op: str, proto: int) -> tuple[float, float]:
    """Return the latency (us) and algorithm bandwidth (GB/s) of a ring."""
    n, nodes = machine.ranks, machine.nodes
    rounds = 2 if op == "all_reduce" else 1
    hops = 0 if nodes == 1 else rounds * (nodes - 1)
    # NCCL counts n steps for a chain, each with the whole vector.
    steps = n if op in CHAINS else rounds * (n - 1)
    hardware = HARDWARE["nvlink" if g.nvlink else "pci"]["ring"][proto]
    overhead = 0.0
    if nodes > 1:
        overhead = 3 * NET_OVERHEAD if proto == _SIMPLE else NET_OVERHEAD
    network = HARDWARE["net"]["ring"][proto]
    latency = BASE["ring"][proto] + (steps - hops) * max(hardware, overhead) + hops * network
    if op in CHAINS:
        # If all channels are equal, as assumed here, NCCL counts one hop for chains of any length.
        # So long chains switch to Simple at smaller sizes than is optimal.
        latency = BASE["ring"][proto] + (hardware if nodes == 1 else network)
    bus = g.ring_bus
    if proto == _LL:
        # Half of the bytes of LL are flags, one with each word of data.
        row = g.row if nodes == 1 else 0
        bus = min(LL_MAX[row][g.column], bus * 0.5)
    elif proto == _LL128:
        bus = min(
            bus * 0.92, max(g.channels * RING_LL128_PER_CHANNEL[g.row], RING_LL128_LEAST[g.row])
        )
    # NCCL uses link rates: in all steps together a rank sends steps / n of the vector.
    return latency, bus * n / max(steps, 1)


def _tree(machine: NcclMachine, g: _Graph, proto: int) -> tuple[float, float]:
    """Return the latency and bandwidth of a double tree all-reduce."""
    nodes, local = machine.nodes, machine.gpus_per_node
    hardware = HARDWARE["nvlink" if g.nvlink else "pci"]["tree"][proto]
    levels = int(np.floor(np.log2(nodes)))
    latency = BASE["tree"][proto] + 2 * (
        (local - 1) * hardware + levels * HARDWARE["net"]["tree"][proto]
    )
    bus = min(g.tree_bus * 0.92, g.channels * TREE_PER_CHANNEL[g.row][g.column])
    if proto == _LL:
        row = g.row if nodes == 1 else 0
        bus = min(bus / 3.8, LL_MAX[row][g.column])
    elif proto == _LL128:
        bus = min(
            # The last 8 of each 128 bytes of LL128 are a flag.
            bus * (7 / 9 if nodes == 1 else 120 / 128),
            g.channels * TREE_LL128_PER_CHANNEL[g.row][g.column],
        )
    # The vector goes up and down the tree.
    return latency, bus * 0.5


def _nvls(machine: NcclMachine, g: _Graph, op: str) -> tuple[float, float] | None:
    """Return the latency and bandwidth of NVLS (one node) or NVLSTree (several).

    None if it cannot run.
    """
    local, nodes = machine.gpus_per_node, machine.nodes
    if g.row < 2 or machine.intra != NVSWITCH or not machine.version_at_least(2, 18) or local < 3:
        return None
    if not machine.multicast:
        return None
    if op in CHAINS or (nodes > 1 and op != "all_reduce"):
        return None
    speed = next(
        s
        for s in NVLS_SPEEDS[g.row]
        if s * local <= max(g.channels * NVSWITCH_GRAPH[g.row][1], 1) * 1.03
        or s == NVLS_SPEEDS[g.row][-1]
    )
    factor = 2.0 if op == "all_reduce" else (local - 1) / local
    intra = speed * NVLS_EFFICIENCY[g.row] * (local - 1) / local * factor * local
    n = machine.ranks
    steps = (2 if op == "all_reduce" else 1) * (n - 1)
    if nodes == 1:
        return NVLS_LATENCY, intra * n / steps
    inter = machine.nic_rate / GB * (2 if nodes == 2 else 1)
    levels = int(np.floor(np.log2(nodes)))
    return NVLS_LATENCY + 2 * levels * NVLSTREE_NET, min(intra, inter) * n / steps


def _has_ll128(machine: NcclMachine) -> bool:
    """Return whether stores of 128 bytes are known to be atomic, which LL128 needs.

    Over PCIe they are not. RCCL's tables between nodes fit with LL128, those inside a node without.
    """
    if machine.capability < 70:
        return False
    if machine.intra == XGMI:
        return machine.nodes > 1
    return machine.intra in (NVSWITCH, NVMESH) or machine.gpus_per_node == 1


def _correction(proto: str, nbytes: FloatArray) -> FloatArray:
    index = np.clip(np.floor(np.log2(np.maximum(nbytes, 64) / 64)), 0, 23).astype(int)
    result: FloatArray = np.asarray(TREE_CORRECTION[proto], dtype=float)[index]
    return result


def costs(
    machine: NcclMachine, op: str, dtype_bytes: int, nbytes: FloatArray
) -> dict[Choice, FloatArray]:
    """Return NCCL's estimate in seconds for each (algorithm, protocol) that may run."""
    g = _graph(machine)
    out: dict[Choice, FloatArray] = {}
    for i, proto in enumerate(PROTOCOLS):
        if proto == "LL128" and not _has_ll128(machine):
            continue
        latency, bandwidth = _ring(machine, g, op, i)
        scale = np.ones_like(nbytes)
        if i == 2 and op == "all_reduce" and machine.nodes > 1:
            # NCCL calls it the plateau effect of rings: large messages take longer than its linear
            # estimate.
            big = nbytes / (g.channels * machine.ranks) >= 64
            scale = np.where(big, 1.4 if machine.capability >= 80 else 1.9, 1.0)
        out["ring", proto] = latency * scale * 1e-6 + nbytes / (bandwidth * GB)
        if op == "all_reduce" and machine.version_at_least(2, 4):
            latency, bandwidth = _tree(machine, g, i)
            out["tree", proto] = latency * 1e-6 + nbytes / (
                bandwidth * GB * _correction(proto, nbytes)
            )
    nvls = _nvls(machine, g, op) if dtype_bytes > 1 else None
    if nvls is not None:
        name = "nvls" if machine.nodes == 1 else "nvlstree"
        out[name, "Simple"] = nvls[0] * 1e-6 + nbytes / (nvls[1] * GB)
    return _restrict(out, machine)


def _restrict(table: dict[Choice, FloatArray], machine: NcclMachine) -> dict[Choice, FloatArray]:
    """Return the choices that NCCL_ALGO and NCCL_PROTO allow, or all if they exclude every one."""
    algorithm, protocol = machine.forced_algorithm, machine.forced_protocol
    kept = {
        (a, p): t
        for (a, p), t in table.items()
        if (algorithm is None or a == algorithm) and (protocol is None or p.lower() == protocol)
    }
    return kept or table


def choose(machine: NcclMachine, op: str, dtype_bytes: int, nbytes: FloatArray) -> list[Choice]:
    """Return the (algorithm, protocol) that NCCL would choose for each size."""
    if op in ("alltoall", "sendrecv"):
        return [("p2p", "Simple")] * len(nbytes)
    table = costs(machine, op, dtype_bytes, nbytes)
    keys = list(table)
    best = np.argmin(np.stack([table[k] for k in keys]), axis=0)
    return [keys[i] for i in best]
