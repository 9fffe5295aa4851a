"""Time of a chosen (algorithm, protocol): the fitted half of the model.

With S bytes (nccl-tests' convention: the larger buffer), n ranks on N nodes of g GPUs:

    step protocols (LL, LL128; ring or tree), one node
        t = o + k ((h + d H)^p + (c / B)^p)^(1/p)
      k steps of latency h and chunk c = V / k; V = bytes over the busiest rank's port.  H is a Hill
      function of S: beyond a few KiB more warps and channels start, which costs d a step.
    pipelined (Simple; NVLS, p2p)
        t = (L^r + T^r)^(1/r),   L = o + a + k h,   T = V / B
      r = 1 adds the two; r < 1 is a pipeline that must be filled, which adds about their geometric
      mean (r = 1/2: L + T + 2 sqrt(L T)); r > 1 overlaps them (Blackwell).
    several nodes
        L = o + a_net + a_p + k h_p + 2 ceil(log2 N) w_p   (ring: 2 (N-1) hops)
        T = (T_net^q + T_intra^q)^(1/q),  T_net = f S / (e_p R),
        t = (L^r + T^r)^(1/r), r = net_r (rings: 1, q twice)
      For a gather or a scatter T_net is the softened larger of itself and the time in which the
      channels feed the cards.
      R is the NICs' line rate per node, e_p the share of it that a protocol moves (half by LL,
      where a flag goes with each word; its channels move at most C bytes a second, so that T_net is
      f S / (e R) + f S / (C channels)), f the bytes that
      cross a node's boundary per byte reduced: ring 2 (n-1)/n, tree 1 on two nodes, else
      2 (N-1)/N (every node is a leaf of one tree and an inner node of the other).

All quantities are SI. Everything works on arrays, one element per row. Sources: step counts and
bytes from NCCL's tuning.cc (see `dpsim.network.libraries.nccl.selection`); the power means are
empirical, found on the tables of validate/published/data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpsim.base.arrays import FloatArray, IntArray

Params = Mapping[str, FloatArray]

OPS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "alltoall",
    "broadcast",
    "reduce",
    "sendrecv",
)
_ALL_REDUCE, _ALL_GATHER, _REDUCE_SCATTER, _ALL_TO_ALL, _BROADCAST, _REDUCE, _SEND = range(len(OPS))
_ONE_WAY = (_ALL_GATHER, _REDUCE_SCATTER)
_CHAINS = (_BROADCAST, _REDUCE)  # from one rank through all, or back
_SUMS = (_ALL_REDUCE, _REDUCE_SCATTER, _REDUCE)
BRANCHES = (
    "ring/LL",
    "ring/LL128",
    "ring/Simple",
    "tree/LL",
    "tree/LL128",
    "tree/Simple",
    "nvls/Simple",
    "nvlstree/Simple",
    "p2p/Simple",
)
STEP_EXPONENT = 2.0
WARM_BYTES = 12e3
P2P_SWITCH_BYTES = 25e3
# NCCL's own caps on an NVLSTree channel beyond two nodes against two (Hopper 45.5 / 57.7)
NVLSTREE_MANY = 0.79
# NVLS is assumed to fill as fast among fewer GPUs, which was not measured.
NVLS_RANKS = 8
# One loop of NVLS's kernel moves a chunk of 128 KiB of each GPU in each of up to 32 channels
# (src/init.cc, src/enqueue.cc).
NVLS_LOOP = 32 * 128 * 2.0**10  # bytes of the vector for each GPU
FLOOR_SHARPNESS = 4.0
_NO_FLOOR = 1e-12  # s
CHANNEL_RATE = 50e9  # B/s, about the most that NCCL's search plans for a channel between nodes
# How much sharper the maximum of network and node is in a ring than in a tree.
RING_SHARPER = 2.0


@dataclass(frozen=True)
class Work:
    """Rows to be timed: sizes, geometry, and the branch of each (an index into BRANCHES)."""

    nbytes: FloatArray
    ranks: FloatArray
    nodes: FloatArray
    op: IntArray
    branch: IntArray
    one_byte: FloatArray
    nic_rate: FloatArray

    def times(self, count: int, branch: IntArray) -> Work:
        """Return these rows repeated ``count`` times, with a ``branch`` for each."""
        rows = {each.name: np.tile(getattr(self, each.name), count) for each in fields(self)}
        return Work(**{**rows, "branch": branch})

    # Cached, because a fit times the same rows some thousand times.
    @cached_property
    def local(self) -> FloatArray:
        """GPUs per node."""
        return self.ranks / self.nodes

    @cached_property
    def rounds(self) -> FloatArray:
        """2 for an all-reduce (reduce-scatter, then all-gather), otherwise 1."""
        return np.where(self.op == _ALL_REDUCE, 2.0, 1.0)

    @cached_property
    def is_chain(self) -> npt.NDArray[np.bool_]:
        """Whether each rank passes the whole vector on to the next."""
        return np.isin(self.op, _CHAINS)

    @cached_property
    def is_send(self) -> npt.NDArray[np.bool_]:
        """Whether each rank sends to one other rank only."""
        return np.equal(self.op, _SEND)

    @cached_property
    def is_one_way(self) -> npt.NDArray[np.bool_]:
        """Whether it is a gather or a scatter."""
        return np.isin(self.op, _ONE_WAY)

    @cached_property
    def warmth(self) -> FloatArray:
        """How far the size exceeds the few KiB at which more channels start, from 0 to 1."""
        return _hill(self.nbytes / WARM_BYTES)

    @cached_property
    def adds_bytes(self) -> npt.NDArray[np.bool_] | None:
        """Whether a row sums elements of one byte; None if no row does."""
        found = np.isin(self.op, _SUMS) & (self.one_byte > 0)
        return found if found.any() else None

    @cached_property
    def by_branch(self) -> list[tuple[str, str, IntArray, Work]]:
        """Algorithm, protocol, indices and rows, for each branch on one node and on several."""
        several = self.nodes > 1
        found = []
        for index in np.unique(self.branch):
            algorithm, proto = BRANCHES[index].split("/")
            for net in (False, True):
                places = np.flatnonzero((self.branch == index) & (several == net))
                if len(places):
                    rows = {each.name: getattr(self, each.name)[places] for each in fields(self)}
                    found.append((algorithm, proto, places, Work(**rows)))
        return found


def _hill(x: FloatArray) -> FloatArray:
    y = x**2.0
    return y / (1 + y)


def _port_bytes(w: Work, p: Params) -> FloatArray:
    """Return V: bytes over one GPU's port, with the local copy of its own share (weight `copy`)."""
    copy = np.where(w.op == _ALL_REDUCE, p["copy"], p["copy_p2p"])
    copy = np.where(w.op == _ALL_GATHER, p["copy_ag"], copy)
    copy = np.where(w.op == _REDUCE_SCATTER, p["copy_rs"], copy)
    shared = w.nbytes * (w.rounds * (w.ranks - 1) + copy) / w.ranks
    # In a chain, and in a send, a rank passes on the whole vector.
    shared_or_sent = np.where(w.is_send, w.nbytes, shared)
    return np.where(w.is_chain, w.nbytes * p["chain"], shared_or_sent)


def _inside_bytes(w: Work, p: Params) -> FloatArray:
    """Return the bytes over a GPU's port inside its node; 0 if it is the only one there."""
    return np.where(w.local > 1, _port_bytes(w, p), 0.0)


def _stepped(w: Work, p: Params, proto: str) -> FloatArray:
    """Return the time of LL or LL128 on one node: a soft maximum of latency and data per step."""
    steps = w.rounds * (w.ranks - 1)
    chunk = _port_bytes(w, p) / steps
    step = p["h_" + proto] + p["d_LL"] * w.warmth
    fixed = p["o"] + (p["a_LL128"] if proto == "LL128" else 0.0)
    q = STEP_EXPONENT
    result: FloatArray = fixed + steps * (step**q + (chunk / p["B_" + proto]) ** q) ** (1 / q)
    return result


def _reduced_penalty(w: Work, p: Params) -> FloatArray | float:
    """Return the extra time of one-byte sums, which run below copy rate.

    Seconds per byte times the bytes that one rank sums.
    """
    if w.adds_bytes is None:
        return 0.0
    return np.where(w.adds_bytes, p["int8"] * w.nbytes / np.sqrt(w.ranks), 0.0)


def _power_mean(a: FloatArray, b: FloatArray, r: FloatArray) -> FloatArray:
    """Return (a^r + b^r)^(1/r): above the sum for r < 1, near the maximum for large r."""
    high, low = np.maximum(a, b), np.minimum(a, b)
    result: FloatArray = high * (1 + (low / high) ** r) ** (1 / r)
    return result


def _simple_ring(w: Work, p: Params) -> FloatArray:
    latency = p["o"] + p["a_S"] + p["h_S"] * w.rounds * (w.ranks - 1)
    return _power_mean(latency, _port_bytes(w, p) / p["B_S"], p["r_S"])


def _nvls(w: Work, p: Params) -> FloatArray:
    # In a gather switches multicast the data: half the bytes of an all-reduce.
    transfer = w.rounds * w.nbytes * (w.ranks - 1) / w.ranks / p["B_N"]
    return _power_mean(p["o"] + _nvls_fill(w, p), transfer, p["r_N"])


def _nvls_fill(w: Work, p: Params) -> FloatArray:
    """Return the seconds until NVLS moves bytes at its full rate.

    Each rank behind the switch has a chunk of its own in a loop of NCCL's kernel, so a loop moves
    more data with more ranks (src/device/all_reduce.h). A vector shorter than a loop fills a part
    of it.
    """
    longer = np.maximum(w.local / NVLS_RANKS, 1.0) - 1.0
    filled = np.minimum(w.nbytes / (w.local * NVLS_LOOP), 1.0)
    return np.asarray(p["a_N"] * (1.0 + longer * filled))


def _p2p(w: Work, p: Params) -> FloatArray:
    """Return the time of an all-to-all, with all peers at once.

    LL below about 25 kB a peer, then Simple with a higher floor.
    """
    peers = np.where(w.is_send, 1.0, w.ranks - 1)
    to_each = np.where(w.is_send, w.nbytes, w.nbytes / w.ranks)
    in_simple = _hill(to_each / P2P_SWITCH_BYTES)
    latency = p["o"] + p["h_P"] * peers + p["a_P"] * in_simple
    return _power_mean(latency, _port_bytes(w, p) / p["B_P"], p["r_P"])


def _hops(w: Work, tree: bool) -> FloatArray:
    """Return the network latencies in a row: up and down the tree, or around the ring."""
    rounds = w.rounds
    if tree:
        return 2 * np.ceil(np.log2(np.maximum(w.nodes, 1)))
    result: FloatArray = rounds * (w.nodes - 1)
    return result


def _crossing(w: Work, tree: bool) -> FloatArray:
    """Return f: bytes over one node's NICs per byte of S, one direction."""
    if not tree:
        return np.where(w.is_chain, 1.0, w.rounds * (w.ranks - 1) / w.ranks)
    result: FloatArray = np.where(w.nodes <= 2, 1.0, 2 * (w.nodes - 1) / w.nodes)
    return result


def _p2p_net(w: Work, p: Params) -> FloatArray:
    """Return the time of an all-to-all over nodes: (N-1)/N of each node's g S bytes leaves it.

    If each rank sends to the next, one rank's data leaves the node, over its share of the cards.
    """
    peers = np.where(w.is_send, 1.0, w.ranks - 1)
    latency = p["o"] + p["net_a"] + p["net_h_Simple"] + p["net_h_P"] * peers
    leaving = np.where(w.is_send, 1.0, (w.nodes - 1) / w.nodes)
    reached = np.minimum(p["net_e_P"], 1.0) * w.nic_rate
    net = w.nbytes * w.local * leaving / reached
    transfer = _power_mean(net, _inside_bytes(w, p) / p["B_P"], p["net_q"])
    return _power_mean(latency, transfer, p["net_r"])


def _feeding(w: Work, p: Params) -> FloatArray:
    """Return the seconds in which a node's GPUs feed their cards in a gather or a scatter.

    NCCL's search lays out one channel for each GPU's share of the cards, and more if that exceeds
    `CHANNEL_RATE`: an all-gather's kernels move less than a card of that rate could.
    """
    fed = _crossing(w, False) * w.nbytes / (p["net_feed"] * _channels(w))
    return np.where(w.is_one_way, fed, 0.0)


def _channels(w: Work) -> FloatArray:
    """Return how many channels NCCL's search lays out over a node's cards."""
    return np.asarray(w.local * np.maximum(np.ceil(w.nic_rate / (w.local * CHANNEL_RATE)), 1))


def _networked(w: Work, p: Params, algorithm: str, proto: str) -> FloatArray:
    """Return the time on several nodes: latencies plus the soft maximum of network and node."""
    tree = algorithm != "ring"
    short = {"LL": "LL", "LL128": "LL128", "Simple": "S"}[proto]
    local = np.maximum(w.local - 1, 0)
    hops = _hops(w, tree)
    # Steps inside nodes: up and down a chain of a node's GPUs in a tree, and in a ring all steps
    # that do not leave a node.
    inside = 2 * local if tree else w.rounds * (w.ranks - 1) - hops
    fixed = p["o"] + p["net_a"] + (p["a_LL128"] if proto == "LL128" else 0.0)
    step = p["h_" + short] + (p["d_LL"] if proto != "Simple" else 0.0) * w.warmth
    port = p["B_" + short] * p["net_port"]
    if algorithm == "nvlstree":
        inside, port = (
            np.zeros_like(local),
            p["B_N"] * p["net_nvls"] * np.where(w.nodes > 2, NVLSTREE_MANY, 1.0),
        )
        fixed = fixed + _nvls_fill(w, p)
    elif proto == "Simple":
        fixed = fixed + p["a_S"]
    latency = fixed + inside * step + hops * p["net_h_" + proto]
    share = p["net_e_" + proto] * (p["net_tree"] if tree else 1.0)
    efficiency = np.minimum(share, 1.0)  # nothing moves more than the cards' line rate
    crossing = _crossing(w, tree) * w.nbytes
    net = crossing / (efficiency * w.nic_rate)
    if proto == "LL":
        # A processor copies the data that leaves a GPU, and checks the flag in every word.
        net = net + crossing / (p["net_c_LL"] * _channels(w))
    volume = 2 * w.nbytes * np.maximum(w.local - 1, 0) / w.local if tree else _inside_bytes(w, p)
    # One pipeline through every link: no ramp beyond the steps, and the slowest link sets the rate.
    if not tree:
        sharpness = p["net_q"] * RING_SHARPER
        net = _power_mean(net, _feeding(w, p), sharpness)
        return latency + _power_mean(net, volume / port, sharpness)
    return _power_mean(latency, _power_mean(net, volume / port, p["net_q"]), p["net_r"])


def seconds(w: Work, p: Params) -> FloatArray:
    """Return the time of each row on its branch, launch floor included."""
    out = np.zeros_like(w.nbytes)
    for algorithm, proto, places, rows in w.by_branch:
        values = Picked(p, places)
        priced = _branch(rows, values, algorithm, proto)
        out[places] = priced + _reduced_penalty(rows, values)
    # Launches of the next calls overlap with this one: the slower of the two sets the pace.
    return _power_mean(out, np.maximum(p["floor"], _NO_FLOOR), np.array(FLOOR_SHARPNESS))


def _branch(w: Work, p: Params, algorithm: str, proto: str) -> FloatArray:
    net = bool(w.nodes[0] > 1)  # of all rows or of none
    if algorithm == "p2p":
        return _p2p_net(w, p) if net else _p2p(w, p)
    if net:
        return _networked(w, p, algorithm, proto)
    if algorithm == "nvls":
        return _nvls(w, p)
    return _stepped(w, p, proto) if proto != "Simple" else _simple_ring(w, p)


class Picked(dict[str, FloatArray]):
    """The ``constants`` of the rows ``places``, each selected when it is first read.

    A branch reads only a few of the hundred.
    """

    def __init__(self, constants: Params, places: IntArray) -> None:
        super().__init__()
        self._of, self._places = constants, places

    def __missing__(self, name: str) -> FloatArray:
        self[name] = picked = self._of[name].take(self._places)
        return picked
