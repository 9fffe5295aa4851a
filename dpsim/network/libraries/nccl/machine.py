"""The description of a machine for NCCL's model; it never contains measurements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from dpsim.base.errors import DpsimError
from dpsim.hardware import pcie_rate

NVSWITCH: Final = "nvswitch"
NVMESH: Final = "nvlink-mesh"
PCIE: Final = "pcie"
XGMI: Final = "xgmi"

INTRA_KINDS: Final = (NVSWITCH, NVMESH, PCIE, XGMI)
TRANSPORTS: Final = (
    "none",
    "ib",
    "roce",
    "efa-v1",
    "efa-v2",  # and later: RDMA writes by the card, which the first generation lacks
    "tcpx",
    "tcpxo",
    "tcp",
    "slingshot",
    "unknown",
)
RCCL: Final = "rccl"  # AMD's version of NCCL, on any network
# How often an operation's bytes pass one of p ports, times p / (p - 1).
_ROUNDS: Final = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0}


@dataclass(frozen=True, slots=True)
class Bus:
    """How copies between the GPUs of a node cross PCIe.

    ``staged``: through the host's memory, so that each byte crosses two links and the memory twice.
    ``per_uplink`` GPUs share one link towards the host, which only staged copies cross.
    ``copy_engine``: copy engines stage, not kernels that load and store. ``sockets``: copies from
    GPU to GPU cross the link between sockets. ``one_way``: each GPU only sends over PCIe or only
    receives, as when bridges join pairs of them.
    """

    staged: bool = False
    per_uplink: float = 1.0
    copy_engine: bool = False
    sockets: bool = False
    one_way: bool = False


DIRECT: Final = Bus()


@dataclass(frozen=True, slots=True)
class IntraNode:
    """The interconnect of the GPUs of a node; see `NcclMachine` for the fields."""

    kind: str
    rate: float
    bus: Bus = DIRECT
    latest_pcie: int = 6


@dataclass(frozen=True, slots=True)
class NcclMachine:
    """Equal GPUs in equal nodes, in SI units.

    ``capability``: ten times the GPU's compute capability. ``intra_rate``: the peak rate of one
    GPU's port inside the node, one way (NVLink 3: 300e9 B/s). ``bus``: how copies between the GPUs
    cross PCIe. ``latest_pcie``: the PCIe generation that the links are named after; their rate may
    match a later one. ``multicast``: the node's switches reduce and multicast, if their generation
    can.

    ``nic_rate``: the line rate of the network cards of one node that the job can use, one way.
    ``nic_staged``: the cards reach the GPUs' memory only through the host's. ``fabric_share``: the
    share of the cards' rate that slower links beyond them allow, which NCCL does not know when it
    chooses.

    ``launch``: how a benchmark was started, which sets its floor: "default" (one process per GPU),
    "single-process" (one thread for a node's GPUs) or "torch". ``forced_algorithm`` and
    ``forced_protocol``: NCCL_ALGO and NCCL_PROTO, if set. ``graph``: the result of NCCL's topology
    search if it cannot be known from outside (0 as shipped, 1 twice the channels); only fits set
    it.

    ``generation`` is shared with similar machines: the transport between nodes, or the fabric
    inside one. For PCIe it is the generation and whether the host stages, for NVLink the GPUs' or
    "nvlink-mesh".

    Raises DpsimError for values that no machine has.
    """

    gpu: str
    capability: int
    intra: str
    intra_rate: float
    bus: Bus = DIRECT
    latest_pcie: int = 6
    multicast: bool = True
    nodes: int = 1
    gpus_per_node: int = 8
    transport: str = "none"
    nic_rate: float = 0.0
    nic_staged: bool = False
    fabric_share: float = 1.0
    nccl_version: tuple[int, ...] | None = None
    launch: str = "default"
    forced_algorithm: str | None = None
    forced_protocol: str | None = None
    graph: int = 0
    generation: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise DpsimError(f"nodes must be at least 1, but got {self.nodes}")
        if self.gpus_per_node < 1:
            raise DpsimError(f"gpus_per_node must be at least 1, but got {self.gpus_per_node}")
        if self.intra not in INTRA_KINDS:
            raise DpsimError(
                f"intra must be one of {', '.join(INTRA_KINDS)}, but got {self.intra!r}"
            )
        if self.transport not in TRANSPORTS:
            raise DpsimError(
                f"transport must be one of {', '.join(TRANSPORTS)}, but got {self.transport!r}"
            )
        if self.nodes > 1 and self.nic_rate <= 0:
            raise DpsimError(
                f"nic_rate must be above 0 on {self.nodes} nodes, but got {self.nic_rate}"
            )
        object.__setattr__(self, "generation", self._generation())

    def _generation(self) -> str:
        if self.nodes > 1:
            return RCCL if self.intra == XGMI else self.transport
        if self.intra == PCIE:
            known = range(self.latest_pcie, 3, -1)
            fast_enough = (g for g in known if self.intra_rate >= 0.9 * pcie_rate(g))
            return f"pcie{next(fast_enough, 3)}{'-staged' if self.bus.staged else ''}"
        kind, mesh = self.families
        return mesh or kind

    @property
    def families(self) -> tuple[str, str]:
        """The groups whose constants apply: the link family, then a variant of it ("" if none)."""
        if self.intra == PCIE:
            return "pcie", "pcie-staged" if self.bus.staged else ""
        if self.intra == XGMI:
            return "xgmi", ""
        # Without a switch, a GPU reaches each neighbour over only some of its links.
        mesh = "nvlink-mesh" if self.intra == NVMESH else ""
        return f"nvlink-{_nvlink_generation(self.capability)}", mesh

    @property
    def ranks(self) -> int:
        """The number of GPUs of the job."""
        return self.nodes * self.gpus_per_node

    def least_seconds(self, operation: str, nbytes: float) -> float:
        """Return a lower bound on the seconds of an operation from the links' rates, 0 if unknown.

        Each GPU's port carries its part inside one node, each node's cards theirs between nodes; an
        all-reduce without reducing switches sends its data 2 (p - 1) / p times (Patarasuk and Yuan
        2009).
        """
        inside = self.nodes == 1
        parts, rate = (self.ranks, self.intra_rate) if inside else (self.nodes, self.nic_rate)
        if self.bus.one_way and inside:
            return 0.0  # bridges carry an unknown part
        if operation == "all_reduce" and inside and self.intra == NVSWITCH and self.multicast:
            times = 1.0
        else:
            times = _ROUNDS.get(operation, 0.0) * (parts - 1) / parts
        return times * nbytes / rate

    def version_at_least(self, *wanted: int) -> bool:
        """Return whether NCCL has at least this version; an unstated version counts as recent."""
        return self.nccl_version is None or self.nccl_version >= wanted


def _nvlink_generation(capability: int) -> str:
    """Return the NVLink generation of a GPU, by ten times its compute capability."""
    if capability >= 100:
        return "blackwell"
    if capability >= 90:
        return "hopper"
    return "ampere" if capability >= 80 else "volta"


@dataclass(frozen=True, slots=True, order=True)
class Note:
    """An unclear part of a description.

    A text of ``column`` that the rules could not read in full, and how it was interpreted.
    """

    column: str
    text: str
    taken_as: str

    def __str__(self) -> str:
        return f"{self.column} {self.text!r}: taken as {self.taken_as}"
