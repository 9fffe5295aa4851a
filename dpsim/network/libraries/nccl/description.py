"""Parse an `NcclMachine` from the free-text columns of measurement tables.

Nothing is guessed silently: everything that was assumed or could not be read is a `Note`. Numbers
that are results rather than descriptions ("plateau 71GB/s", "effective 0.74GB/s") are never read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpsim.hardware import Gpu
from dpsim.network.libraries.nccl.gpus import capability_of, named_gpu, nvlink_rate
from dpsim.network.libraries.nccl.intra_node_text import has_multicast, parse_intra_node
from dpsim.network.libraries.nccl.machine import NVSWITCH, IntraNode, NcclMachine, Note
from dpsim.network.libraries.nccl.network_text import (
    nvlink_domain,
    parse_nics,
    parse_transport,
    staged_through_the_host,
)

_ALGORITHMS = ("ring", "tree", "nvls", "nvlstree")
_PROTOCOLS = ("ll", "ll128", "simple")

# Types of elements by their bytes.
_DTYPES = {
    1: ("int8", "uint8", "char", "fp8"),
    2: ("half", "float16", "fp16", "bfloat16", "bf16"),
    4: ("float32", "fp32", "float", "int32"),
    8: ("double", "float64", "int64"),
}


@dataclass(frozen=True, slots=True)
class Description:
    """A machine, with notes on assumptions and on texts that were not understood."""

    machine: NcclMachine
    notes: tuple[Note, ...]


def parse_gpu(text: str) -> tuple[Gpu, list[Note]]:
    """Return the GPU that ``text`` names; an unknown name is taken as a similar GPU and noted."""
    gpu, known = named_gpu(text)
    like = f"an {gpu.name.split('-')[0].upper()}-class GPU"
    return gpu, [] if known else [Note("gpu", text, f"{like}: its name is not known")]


def parse_version(text: str) -> tuple[int, ...] | None:
    """Return (2, 21, 5) for "2.21.5 (NGC TF 24.06)"; None if nothing is stated.

    In "CUDA 12.4, NCCL 2.21.5" versions of other programs are ignored.
    """
    if "rocm" in text.lower():
        return None  # the version of AMD's stack, not of its NCCL
    own = re.search(r"nccl\D{0,10}(\d.*)", text, re.IGNORECASE)
    found = re.search(r"(?<![\d.])([12])\.(\d+)(?:\.(\d+))?", own.group(1) if own else text)
    return tuple(int(x) for x in found.groups() if x) if found else None


def parse_settings(text: str) -> tuple[str | None, str | None]:
    """Return NCCL_ALGO and NCCL_PROTO as stated, or as plain words: "Ring, 1 channel, LL128".

    Anything vaguer ("default (...)") is not a setting, and neither is a list: with "Ring,Tree" NCCL
    chooses. Plain words without a protocol state what ran, not a forced choice.
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
    """Return the only value to which the variable ``name`` is set in ``text``."""
    stated = re.search(rf"{name}\s*=\s*([\w,]*\w)", text)
    return stated.group(1).lower() if stated and "," not in stated.group(1) else None


def parse_launch(text: str) -> str:
    """Return how the benchmark was started, if the description says so."""
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
    """Return the machine of a row with the columns of nccl_tests.csv.

    Raises DpsimError (see `NcclMachine`).
    """
    gpu, notes = parse_gpu(row["gpu"])
    # Through float, because spreadsheets write 8 as 8.0.
    nodes = int(float(row.get("nodes") or 1))
    local = int(float(row.get("gpus_per_node") or 0)) or max(
        int(float(row.get("n_ranks") or 8)) // nodes, 1
    )
    transport, nic = "none", 0.0
    intra, words = row.get("intra_link") or "", row.get("inter_link") or ""
    nodes, local, found = _nvlink_domains(nodes, local, intra, words)
    notes += found
    settings = row.get("algo_proto") or ""
    inside, found = parse_intra_node(intra, gpu, local, settings)
    notes += found if local > 1 else []
    if nodes > 1:
        transport, found = parse_transport(words, gpu, settings)
        nic, more = parse_nics(words, gpu, local)
        notes += found + more
    algorithm, protocol = parse_settings(settings)
    machine = replace(
        _one_node(row, gpu, inside, local),
        multicast=inside.kind != NVSWITCH or has_multicast(f"{intra} {settings}".lower()),
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
    """Return nodes and GPUs per node; machines that NVLink joins are one node to NCCL."""
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
    result = (
        f"{domains} NVLink domains of {each} GPUs"
        if domains > 1
        else (f"one NVLink domain of {ranks} GPUs")
    )
    return domains, each, [Note(column, text, result)]


def describe_system(row: Mapping[str, str]) -> Description:
    """Return the machine of a row of nccl_single_node.csv.

    The system's name is the whole description ("h100_sxm", "l40s").
    """
    name = row["system"].replace("_", " ")
    gpu, notes = parse_gpu(name)
    local = int(float(row["num_gpus"]))
    words = "PCIe" if "pcie" in name.lower() or not nvlink_rate(gpu) else "NVLink"
    inside, found = parse_intra_node(words, gpu, local)
    machine = _one_node(row, gpu, inside, local)
    return Description(
        machine, tuple(notes + [Note("system", name, note.taken_as) for note in found])
    )


def _one_node(row: Mapping[str, str], gpu: Gpu, inside: IntraNode, local: int) -> NcclMachine:
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
    """Return the bytes of an element; "float32 (torch bench)" is float32; None if unknown."""
    name = (text.split() or ["float32"])[0].lower()
    return next((width for width, names in _DTYPES.items() if name in names), None)
