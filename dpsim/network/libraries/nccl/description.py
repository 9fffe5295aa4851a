"""From words to an `NcclMachine`: rules for the free-text columns of measurement tables.

Nothing is guessed in silence: whatever had to be assumed or could not be read is a `Note`. Numbers
that are results rather than descriptions ("plateau 71GB/s", "effective 0.74GB/s") are never read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpsim.hardware import Gpu, links, pcie_rate, typical_gpus
from dpsim.network.libraries.nccl.bus_text import parse_bus
from dpsim.network.libraries.nccl.gpus import (
    capability_of,
    is_amd,
    named_gpu,
    nvlink_rate,
    pcie_generation,
)
from dpsim.network.libraries.nccl.machine import (
    MESH_RINGS,
    NVMESH,
    NVSWITCH,
    PCIE,
    XGMI,
    Inside,
    NcclMachine,
)
from dpsim.network.libraries.nccl.network_text import (
    nvlink_domain,
    parse_nics,
    parse_transport,
    staged_through_the_host,
)
from dpsim.network.libraries.nccl.notes import Note

XGMI_RATE = 448e9  # B/s of an MI300X, one way, all seven links
_MESH_LINK = "nvlink2"
_PAIR = 2
_ALGORITHMS = ("ring", "tree", "nvls", "nvlstree")
_PROTOCOLS = ("ll", "ll128", "simple")
# Up to Volta, GPUs without a switch stand in the hybrid mesh of a DGX-1; later ones, four at most,
# are joined directly, each with each.
_LAST_HYBRID_MESH = 70
_MOST_DIRECT = 4
# "All-to-all" alone does not say it: over a switch it is, too.
_DIRECT = re.compile(r"fully[- ]connected|\bdirect|mesh|(?:no|without) (?:nv)?switch")
_SWITCHED = re.compile(r"(?<!no )(?<!no nv)(?<!without )(?<!without nv)switch")
# NVLinks that are there and not used: "PCIe (NVLink disabled)".
_NO_NVLINK = re.compile(
    r"\b(?:no|without) nvlink|nvlinks? (?:is )?(?:disabled|off|not used|unused|inactive)"
)
_NO_NVLS = re.compile(
    r"nvls_enable=0|algo=\^nvls|\b(?:no|without) nvls|nvls\)? (?:is )?(?:disabled|off|not used)"
)
_BRIDGE_GENERATION = 3  # of the bridges of a pair whose generation is not stated (A100, A30, A40)

DTYPE_BYTES = {
    "int8": 1,
    "uint8": 1,
    "char": 1,
    "fp8": 1,
    "half": 2,
    "float16": 2,
    "fp16": 2,
    "bfloat16": 2,
    "bf16": 2,
    "float32": 4,
    "fp32": 4,
    "float": 4,
    "double": 8,
    "float64": 8,
    "int32": 4,
    "int64": 8,
}


@dataclass(frozen=True, slots=True)
class Description:
    """A machine, and what reading it took: assumptions, and texts that were not understood."""

    machine: NcclMachine
    notes: tuple[Note, ...]


def parse_gpu(text: str) -> tuple[Gpu, list[Note]]:
    """The GPU that ``text`` names; one of an unknown name is like another, and is noted."""
    gpu, known = named_gpu(text)
    like = f"an {gpu.name.split('-')[0].upper()}-class GPU"
    return gpu, [] if known else [Note("gpu", text, f"{like}: its name is not known")]


def parse_inside(text: str, gpu: Gpu, local: int, settings: str = "") -> tuple[Inside, list[Note]]:
    """What joins the ``local`` GPUs of a node, by the column ``intra_link`` and their kind.

    ``settings`` is what NCCL was told of it, such as NCCL_P2P_DISABLE=1.
    """
    lower = text.lower()
    if re.search(r"xgmi|infinity fabric", lower) or (is_amd(gpu) and "pci" not in lower):
        return Inside(XGMI, XGMI_RATE), [
            Note("intra_link", text, "xGMI under RCCL, not NCCL: constants borrowed from NVLink")
        ]
    own = nvlink_rate(gpu)
    unused = bool(_NO_NVLINK.search(lower))
    pair = _pair_rate(lower, gpu) if local == _PAIR and not unused else 0.0
    if pair and (pair < own or own == 0):
        return Inside(NVMESH, pair), []
    # A card for bridges reaches all others of its node over PCIe alone.
    is_card = own == 0 and not ("nvswitch" in lower and _stated_nvlink(lower))
    if unused or is_card or "pci" in lower:
        return _parse_pcie(text, gpu, local, settings)
    notes = [] if "nv" in lower else [Note("intra_link", text, f"NVLink, as {gpu.name} has it")]
    return _nvlinked(lower, gpu, local), notes


def _nvlinked(lower: str, gpu: Gpu, local: int) -> Inside:
    """What NVLinks join: all by a switch, four at most directly, or the hybrid mesh of a DGX-1."""
    own, stated = nvlink_rate(gpu), _stated_nvlink(lower)
    rate = _usual_nvlink_rate(f"nvlink{stated}") if stated else own
    if not rate or 0 < own < rate:
        rate = own  # parts with fewer links (H800)
    if _SWITCHED.search(lower):
        return Inside(NVSWITCH, rate)
    if capability_of(gpu) <= _LAST_HYBRID_MESH:
        return Inside(NVMESH, _hybrid_mesh_rate(gpu, local))
    if _DIRECT.search(lower) and 1 < local < _MOST_DIRECT:
        # A GPU's links are divided among the other three, also where the job has fewer of them.
        return Inside(NVMESH, rate * (local - 1) / (_MOST_DIRECT - 1))
    # Four in full take part as behind a switch: all links of each carry rings.
    return Inside(NVSWITCH, rate)


def _has_multicast(lower: str) -> bool:
    """Whether the words leave NVLS to NCCL: there is a switch, and nobody turned it off."""
    is_direct = _DIRECT.search(lower) and not _SWITCHED.search(lower)
    return not (is_direct or _NO_NVLS.search(lower))


def _pair_rate(lower: str, gpu: Gpu) -> float:
    """B/s of the links that join two GPUs alone, a bridge or "NV4"; 0 where none are named."""
    if not re.search(r"\bnv(?:link|\d)|(?<!host )\bbridge", lower):
        return 0.0
    counted = re.search(r"\bnv(\d+)\b", lower)
    is_bridge = gpu.nvlink is not None and gpu.nvlink.bridge
    most = gpu.nvlink.rate if gpu.nvlink is not None and is_bridge else math.inf
    if not counted:
        return most if is_bridge else 0.0
    link = gpu.nvlink.link if gpu.nvlink else f"nvlink{_stated_nvlink(lower) or _BRIDGE_GENERATION}"
    return min(int(counted.group(1)) * links()[link].rate.value, most)


def _hybrid_mesh_rate(gpu: Gpu, local: int) -> float:
    """B/s of the rings that a DGX-1 has for its first ``local`` GPUs."""
    fabric = gpu.nvlink_fabric
    link, count = (fabric.link, fabric.count) if fabric else (_MESH_LINK, 6)
    return min(MESH_RINGS.get(local, count), count) * links()[link].rate.value


def _stated_nvlink(lower: str) -> int | None:
    """The generation of NVLink that the words name."""
    stated = re.search(r"nvlink\s*(?:v|gen)?\s*(\d)", lower)
    return int(stated.group(1)) if stated else None


def _usual_nvlink_rate(link: str) -> float:
    """B/s of as many of these NVLinks as the GPU of their generation has; 0 for unknown ones."""
    fabrics = (gpu.nvlink_fabric for gpu in typical_gpus())
    return next((fabric.rate for fabric in fabrics if fabric and fabric.link == link), 0.0)


def _parse_pcie(text: str, gpu: Gpu, local: int, settings: str) -> tuple[Inside, list[Note]]:
    lower = text.lower()
    stated = re.search(r"pcie?\s*(?:-?e)?\s*(?:v|gen)?\s*([2-6])\b|gen\s*([2-6])", lower)
    generation = int(stated.group(1) or stated.group(2)) if stated else pcie_generation(gpu)
    notes = [] if stated else [Note("intra_link", text, f"PCIe {generation}, as {gpu.name} has it")]
    lanes = re.search(r"(?<!switch )(?<!switches )\bx(4|8|16)\b", lower)
    width = int(lanes.group(1)) if lanes else 16
    bus, said = parse_bus(text, settings, gpu, local)
    return Inside(PCIE, pcie_rate(generation, width), bus), notes + said


def parse_version(text: str) -> tuple[int, ...] | None:
    """(2, 21, 5) from "2.21.5 (NGC TF 24.06)"; None where nothing is stated.

    Of "CUDA 12.4, NCCL 2.21.5" too: versions of other programs are none of NCCL's.
    """
    if "rocm" in text.lower():
        return None  # the version of AMD's stack, not of its NCCL
    own = re.search(r"nccl\D{0,10}(\d.*)", text, re.IGNORECASE)
    found = re.search(r"(?<![\d.])([12])\.(\d+)(?:\.(\d+))?", own.group(1) if own else text)
    return tuple(int(x) for x in found.groups() if x) if found else None


def parse_settings(text: str) -> tuple[str | None, str | None]:
    """NCCL_ALGO and NCCL_PROTO as stated, or as plain words: "Ring, 1 channel, LL128".

    Anything vaguer ("default (...)") is not a setting, nor is a list: of "Ring,Tree" NCCL chooses.
    Plain words without a protocol say what ran, not what it was held to.
    """
    algorithm, protocol = _variable("NCCL_ALGO", text), _variable("NCCL_PROTO", text)
    words = [word.strip() for word in text.lower().split(",")]
    named = [word for word in words if word in _PROTOCOLS]
    if len(named) == 1 and "NCCL_PROTO" not in text:
        protocol = named[0]
        algorithm = algorithm or next((word for word in words if word in _ALGORITHMS), None)
    held = re.search(r"^(ring|tree)\s*\(stated", text, re.IGNORECASE)
    return algorithm or (held.group(1).lower() if held else None), protocol


def _variable(name: str, text: str) -> str | None:
    """The one value that the variable ``name`` is set to in ``text``."""
    stated = re.search(rf"{name}\s*=\s*([\w,]*\w)", text)
    return stated.group(1).lower() if stated and "," not in stated.group(1) else None


def parse_launch(text: str) -> str:
    """How the benchmark was started, where the description says so."""
    lower = text.lower()
    stated = re.search(r"launcher:\s*([^;]*)", lower)
    lower = stated.group(1) if stated else lower
    if "torch" in lower:
        return "torch"
    if re.search(
        r"single[ -]process|1[ -]?proc\b|one process one thread|(?<!\w)-g\s*([2-9]|1\d)", lower
    ):
        return "single-process"
    return "default"


def describe(row: Mapping[str, str]) -> Description:
    """The machine of a row with the columns of nccl_tests.csv.

    Raises DpsimError (see `NcclMachine`).
    """
    gpu, notes = parse_gpu(row["gpu"])
    nodes = int(float(row.get("nodes") or 1))
    local = int(float(row.get("gpus_per_node") or 0)) or max(
        int(float(row.get("n_ranks") or 8)) // nodes, 1
    )
    transport, nic = "none", 0.0
    intra, words = row.get("intra_link") or "", row.get("inter_link") or ""
    nodes, local, said = _nvlink_domains(nodes, local, intra, words)
    notes += said
    settings = row.get("algo_proto") or ""
    inside, said = parse_inside(intra, gpu, local, settings)
    notes += said if local > 1 else []
    if nodes > 1:
        transport, said = parse_transport(words, gpu, settings)
        nic, more = parse_nics(words, gpu, local)
        notes += said + more
    algorithm, protocol = parse_settings(settings)
    machine = replace(
        _one_node(row, gpu, inside, local),
        multicast=inside.kind != NVSWITCH or _has_multicast(f"{intra} {settings}".lower()),
        nodes=nodes,
        transport=transport,
        nic_rate=nic,
        nic_staged=nodes > 1 and staged_through_the_host(words),
        launch=parse_launch(
            " ".join(row.get(column) or "" for column in ("dtype", "machine", "notes"))
        ),
        forced_algorithm=algorithm,
        forced_protocol=protocol,
    )
    return Description(machine, tuple(notes))


def _nvlink_domains(nodes: int, local: int, intra: str, words: str) -> tuple[int, int, list[Note]]:
    """Nodes and GPUs of each, where NVLink joins several machines into one node to NCCL."""
    size = nvlink_domain(f"{intra} {words}")
    if nodes == 1 or (size is None and not re.search(r"nvlink|mnnvl", words.lower())):
        return nodes, local, []
    ranks = nodes * local
    domains = math.ceil(ranks / size) if size else 1
    if ranks % domains:
        return nodes, local, [Note("intra_link", intra, "nodes apart: domains are unequal")]
    each = ranks // domains
    text = intra if size and nvlink_domain(intra) else words
    column = "intra_link" if text == intra else "inter_link"
    said = (
        f"{domains} NVLink domains of {each} GPUs"
        if domains > 1
        else (f"one NVLink domain of {ranks} GPUs")
    )
    return domains, each, [Note(column, text, said)]


def describe_system(row: Mapping[str, str]) -> Description:
    """The machine of a row of nccl_single_node.csv.

    The system's name says it all ("h100_sxm", "l40s").
    """
    name = row["system"].replace("_", " ")
    gpu, notes = parse_gpu(name)
    local = int(float(row["num_gpus"]))
    words = "PCIe" if "pcie" in name.lower() or not nvlink_rate(gpu) else "NVLink"
    inside, said = parse_inside(words, gpu, local)
    machine = _one_node(row, gpu, inside, local)
    return Description(
        machine, tuple(notes + [Note("system", name, note.taken_as) for note in said])
    )


def _one_node(row: Mapping[str, str], gpu: Gpu, inside: Inside, local: int) -> NcclMachine:
    return NcclMachine(
        gpu=gpu.name,
        capability=capability_of(gpu),
        intra=inside.kind,
        intra_rate=inside.rate,
        bus=inside.bus,
        gpus_per_node=local,
        nccl_version=parse_version(row.get("nccl_version") or ""),
    )


def dtype_bytes(text: str) -> int | None:
    """Bytes of an element; "float32 (torch bench)" is float32; None where the word is not known."""
    return DTYPE_BYTES.get((text.split() or ["float32"])[0].lower())
