"""Parse the intra-node interconnect from words such as "NVLink4+NVSwitch3".

NVLinks and how they join the GPUs, AMD's links, or else PCIe (see `bus_text`).
"""

from __future__ import annotations

import re

from dpsim.hardware import Gpu, links, nodes, pcie_rate, typical_gpus
from dpsim.network.libraries.nccl.bus_text import parse_bus
from dpsim.network.libraries.nccl.gpus import (
    capability_of,
    direct_rings,
    is_amd,
    nvlink_rate,
    pcie_generation,
)
from dpsim.network.libraries.nccl.machine import (
    NVMESH,
    NVSWITCH,
    PCIE,
    XGMI,
    IntraNode,
    Note,
)

# Nodes whose links are used for GPUs without a node of their own.
_XGMI_NODE, _HYBRID_MESH = "mi300x-8gpu", "dgx1-v100"
_PAIR = 2
# Up to Volta, GPUs without a switch form the hybrid mesh of a DGX-1; later ones, four at most, are
# fully connected.
_LAST_HYBRID_MESH = 70
_MOST_DIRECT = 4
# "All-to-all" is not included, because GPUs behind a switch are all-to-all too.
_DIRECT = re.compile(r"fully[- ]connected|\bdirect|mesh|(?:no|without) (?:nv)?switch")
_SWITCHED = re.compile(r"(?<!no )(?<!no nv)(?<!without )(?<!without nv)switch")
# NVLinks that exist but are not used: "PCIe (NVLink disabled)".
_NO_NVLINK = re.compile(
    r"\b(?:no|without) nvlink|nvlinks? (?:is )?(?:disabled|off|not used|unused|inactive)"
)
_NO_NVLS = re.compile(
    r"nvls_enable=0|algo=\^nvls|\b(?:no|without) nvls|nvls\)? (?:is )?(?:disabled|off|not used)"
)
_BRIDGE_GENERATION = 3  # assumed for bridges without a stated generation (A100, A30, A40)


def parse_intra_node(
    text: str, gpu: Gpu, gpus_per_node: int, settings: str = ""
) -> tuple[IntraNode, list[Note]]:
    """Return the interconnect of a node's GPUs, by the column ``intra_link`` and their kind.

    ``settings`` are NCCL's settings, such as NCCL_P2P_DISABLE=1.
    """
    words = text.lower()
    if re.search(r"xgmi|infinity fabric", words) or (is_amd(gpu) and "pci" not in words):
        return IntraNode(XGMI, _mesh_rate(gpu, gpus_per_node, _XGMI_NODE)), [
            Note("intra_link", text, "xGMI under RCCL, not NCCL: constants borrowed from NVLink")
        ]
    own = nvlink_rate(gpu)
    unused = bool(_NO_NVLINK.search(words))
    pair = _pair_rate(words, gpu) if gpus_per_node == _PAIR and not unused else 0.0
    if pair and (pair < own or own == 0):
        return IntraNode(NVMESH, pair), []
    # A card with bridges reaches all other GPUs of its node only over PCIe.
    is_card = own == 0 and not ("nvswitch" in words and _stated_nvlink(words))
    if unused or is_card or "pci" in words:
        return _parse_pcie(text, gpu, gpus_per_node, settings)
    notes = [] if "nv" in words else [Note("intra_link", text, f"NVLink, as {gpu.name} has it")]
    return _nvlinked(words, gpu, gpus_per_node), notes


def _mesh_rate(gpu: Gpu, gpus_per_node: int, fallback: str) -> float:
    """Return the one-way B/s of the rings over the first GPUs of their catalogue node.

    A GPU without a node in the catalogue uses the node ``fallback``.
    """
    # Compare names too, because the line of an MI250X begins with that of an MI250.
    named = (nodes()[name] for name in nodes().with_line_starting(f"gpu: {gpu.name}"))
    own = (node for node in named if node.gpu.name == gpu.name)
    for node in (*own, nodes()[fallback]):
        # A single GPU is described by the links that join all GPUs of the node.
        used = gpus_per_node if 1 < gpus_per_node < node.gpus else node.gpus
        devices = [f"gpu{place}" for place in range(used)]
        if rate := direct_rings(node.gpu, devices, node.expand_edges()).rate:
            return rate
    return 0.0


def _nvlinked(words: str, gpu: Gpu, gpus_per_node: int) -> IntraNode:
    """Return a switch, at most four directly connected GPUs, or a DGX-1's hybrid mesh."""
    own, stated = nvlink_rate(gpu), _stated_nvlink(words)
    rate = _typical_nvlink_rate(f"nvlink{stated}") if stated else own
    if not rate or 0 < own < rate:
        rate = own  # parts with fewer links (H800)
    if _SWITCHED.search(words):
        return IntraNode(NVSWITCH, rate)
    if capability_of(gpu) <= _LAST_HYBRID_MESH:
        return IntraNode(NVMESH, _mesh_rate(gpu, gpus_per_node, _HYBRID_MESH))
    if _DIRECT.search(words) and 1 < gpus_per_node < _MOST_DIRECT:
        # A GPU's links are divided among the other three, even if the job uses fewer of them.
        return IntraNode(NVMESH, rate * (gpus_per_node - 1) / (_MOST_DIRECT - 1))
    # All four together behave like GPUs behind a switch: all links of each carry rings.
    return IntraNode(NVSWITCH, rate)


def has_multicast(words: str) -> bool:
    """Return whether NCCL may use NVLS: there is a switch, and NVLS is not disabled."""
    is_direct = _DIRECT.search(words) and not _SWITCHED.search(words)
    return not (is_direct or _NO_NVLS.search(words))


def _pair_rate(words: str, gpu: Gpu) -> float:
    """Return the B/s of the links that join a pair of GPUs, a bridge or "NV4"; 0 if unnamed."""
    if not re.search(r"\bnv(?:link|\d)|(?<!host )\bbridge", words):
        return 0.0
    counted = re.search(r"\bnv(\d+)\b", words)
    bridge = gpu.nvlink if gpu.nvlink and gpu.nvlink.bridge else None
    if not counted:
        return bridge.rate if bridge else 0.0
    link = gpu.nvlink.link if gpu.nvlink else f"nvlink{_stated_nvlink(words) or _BRIDGE_GENERATION}"
    rate = int(counted.group(1)) * links()[link].rate.value
    return min(rate, bridge.rate) if bridge else rate


def _stated_nvlink(words: str) -> int | None:
    """Return the generation of NVLink that the words name."""
    stated = re.search(r"nvlink\s*(?:v|gen)?\s*(\d)", words)
    return int(stated.group(1)) if stated else None


def _typical_nvlink_rate(link: str) -> float:
    """Return the B/s of all NVLinks of a typical GPU with this ``link``; 0 if there is none."""
    fabrics = (gpu.nvlink_fabric for gpu in typical_gpus())
    return next((fabric.rate for fabric in fabrics if fabric and fabric.link == link), 0.0)


def _parse_pcie(
    text: str, gpu: Gpu, gpus_per_node: int, settings: str
) -> tuple[IntraNode, list[Note]]:
    words = text.lower()
    stated = re.search(r"pcie?\s*(?:-?e)?\s*(?:v|gen)?\s*([2-6])\b|gen\s*([2-6])", words)
    generation = int(stated.group(1) or stated.group(2)) if stated else pcie_generation(gpu)
    notes = [] if stated else [Note("intra_link", text, f"PCIe {generation}, as {gpu.name} has it")]
    lanes = re.search(r"(?<!switch )(?<!switches )\bx(4|8|16)\b", words)
    width = int(lanes.group(1)) if lanes else 16
    bus, bus_notes = parse_bus(text, settings, gpu, gpus_per_node)
    return IntraNode(PCIE, pcie_rate(generation, width), bus), notes + bus_notes
