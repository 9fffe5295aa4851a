"""From words to an `NcclMachine`: rules for the free-text columns of measurement tables.

Nothing is guessed in silence: whatever had to be assumed or could not be read is a `Note`. Numbers
that are results rather than descriptions ("plateau 71GB/s", "effective 0.74GB/s") are never read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpsim.hardware import Gpu, links, pcie_rate, typical_gpus
from dpsim.network.libraries.nccl.gpus import (
    capability_of,
    is_amd,
    named_gpu,
    nvlink_rate,
    pcie_generation,
)
from dpsim.network.libraries.nccl.machine import NVMESH, NVSWITCH, PCIE, XGMI, NcclMachine
from dpsim.network.libraries.nccl.network_text import parse_nics, parse_transport
from dpsim.network.libraries.nccl.notes import Note

XGMI_RATE = 448e9  # B/s of an MI300X, one way, all seven links
_MESH_LINK = "nvlink2"

# Directed rings that the DGX-1 hybrid mesh holds for its first n GPUs, found on vTrain's V100
# tables.
MESH_RINGS = {1: 1, 2: 1, 3: 2, 4: 4, 5: 2, 6: 4, 7: 4, 8: 6}
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


@dataclass(frozen=True, slots=True)
class Inside:
    """What joins the GPUs of a node; see `NcclMachine` for the fields."""

    kind: str
    rate: float
    staged: bool = False
    shared: bool = False


def parse_gpu(text: str) -> tuple[Gpu, list[Note]]:
    """The GPU that ``text`` names; an unknown name counts as an A100-class part, and is noted."""
    gpu, known = named_gpu(text)
    return gpu, [] if known else [Note("gpu", text, "an A100-class GPU: its name is not known")]


def parse_inside(text: str, gpu: Gpu, local: int) -> tuple[Inside, list[Note]]:
    """What joins the ``local`` GPUs of a node, by the column ``intra_link`` and their kind."""
    lower = text.lower()
    if re.search(r"xgmi|infinity fabric", lower) or is_amd(gpu):
        return Inside(XGMI, XGMI_RATE), [
            Note("intra_link", text, "xGMI under RCCL, not NCCL: constants borrowed from NVLink")
        ]
    own = nvlink_rate(gpu)
    if "pci" in lower or (own == 0 and "nvlink" not in lower):
        return _parse_pcie(text, gpu)
    notes = [] if "nv" in lower else [Note("intra_link", text, f"NVLink, as {gpu.name} has it")]
    stated = re.search(r"nvlink\s*(?:v|gen)?\s*(\d)", lower)
    rate = _usual_nvlink_rate(f"nvlink{stated.group(1)}") if stated else own
    if not rate or 0 < own < rate:
        rate = own  # parts with fewer links (H800)
    meshed = capability_of(gpu) <= 70 and "switch" not in lower
    if meshed or re.search(r"mesh|dgx-?1\b", lower):
        return Inside(NVMESH, MESH_RINGS.get(local, 6) * links()[_MESH_LINK].rate.value), notes
    return Inside(NVSWITCH, rate), notes


def _usual_nvlink_rate(link: str) -> float:
    """B/s of as many of these NVLinks as the GPU of their generation has; 0 for unknown ones."""
    fabrics = (gpu.nvlink_fabric for gpu in typical_gpus())
    return next((fabric.rate for fabric in fabrics if fabric and fabric.link == link), 0.0)


def _parse_pcie(text: str, gpu: Gpu) -> tuple[Inside, list[Note]]:
    lower = text.lower()
    stated = re.search(r"pcie?\s*(?:-?e)?\s*(?:v|gen)?\s*([2-6])\b|gen\s*([2-6])", lower)
    generation = int(stated.group(1) or stated.group(2)) if stated else pcie_generation(gpu)
    notes = [] if stated else [Note("intra_link", text, f"PCIe {generation}, as {gpu.name} has it")]
    lanes = re.search(r"x(4|8|16)\b", lower)
    width = int(lanes.group(1)) if lanes else 16
    staged = bool(re.search(r"host|shm|no p2p|without p2p|staged", lower)) or not gpu.peer_access
    return Inside(PCIE, pcie_rate(generation, width), staged), notes


def parse_version(text: str) -> tuple[int, ...] | None:
    """(2, 21, 5) from "2.21.5 (NGC TF 24.06)"; None where nothing is stated."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(x) for x in found.groups() if x) if found else None


def parse_settings(text: str) -> tuple[str | None, str | None]:
    """NCCL_ALGO and NCCL_PROTO as stated; anything vaguer ("default (...)") is not a setting."""
    algorithm = re.search(r"NCCL_ALGO\s*=\s*(\w+)", text) or re.search(
        r"^(ring|tree)\s*\(stated", text, re.IGNORECASE
    )
    protocol = re.search(r"NCCL_PROTO\s*=\s*(\w+)", text)
    return (
        algorithm.group(1).lower() if algorithm else None,
        protocol.group(1).lower() if protocol else None,
    )


def parse_launch(text: str) -> str:
    """How the benchmark was started, where the description says so."""
    lower = text.lower()
    if "torch" in lower:
        return "torch"
    if re.search(r"single[ -]process|1[ -]?proc\b|(?<!\w)-g\s*([2-9]|1\d)", lower):
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
    inside, said = parse_inside(row.get("intra_link") or "", gpu, local)
    notes += said if local > 1 else []
    transport, nic = "none", 0.0
    words = row.get("inter_link") or ""
    if nodes > 1 and re.search(r"nvlink|mnnvl|nvl\s?\d\d", words.lower()):
        notes.append(Note("inter_link", words, f"one NVLink domain of {nodes * local} GPUs"))
        nodes, local = 1, nodes * local
    if nodes > 1:
        transport, said = parse_transport(words)
        nic, more = parse_nics(words, gpu, local)
        notes += said + more
    algorithm, protocol = parse_settings(row.get("algo_proto") or "")
    machine = replace(
        _one_node(row, gpu, inside, local),
        nodes=nodes,
        transport=transport,
        nic_rate=nic,
        launch=parse_launch(
            " ".join(row.get(column) or "" for column in ("dtype", "machine", "notes"))
        ),
        forced_algorithm=algorithm,
        forced_protocol=protocol,
    )
    return Description(machine, tuple(notes))


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
        staged=inside.staged,
        gpus_per_node=local,
        nccl_version=parse_version(row.get("nccl_version") or ""),
    )


def dtype_bytes(text: str) -> int | None:
    """Bytes of an element; "float32 (torch bench)" is float32; None where the word is not known."""
    return DTYPE_BYTES.get((text.split() or ["float32"])[0].lower())
