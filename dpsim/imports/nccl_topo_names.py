"""What the words of NCCL's topology file mean in the catalogue's terms.

GPUs, PCIe links, links between sockets, networks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from dpsim.imports.options import Choice
from dpsim.imports.reading import ImportFileError
from dpsim.imports.xml_tree import Element

# PCI device numbers of NVIDIA's GPUs (the PCI ID Repository, pci-ids.ucw.cz).
_BY_DEVICE = {
    "0x102d": "k80",
    "0x17c2": "titan-x-maxwell",
    "0x1b00": "titan-x-pascal",
    "0x1b38": "p40",
    "0x15f8": "p100-pcie",
    "0x15f9": "p100-sxm2",
    "0x1db1": "v100-sxm2-16gb",
    "0x1db4": "v100-pcie-16gb",
    "0x1db5": "v100-sxm2-32gb",
    "0x1db6": "v100-pcie-32gb",
    "0x1eb8": "t4",
    "0x20b0": "a100-sxm-40gb",
    "0x20b2": "a100-sxm-80gb",
    "0x20f1": "a100-pcie-40gb",
    "0x2330": "h100-sxm",
    "0x2331": "h100-pcie",
    "0x2335": "h200",
}
# Compute capability: the GPU with NVLinks, and the one without.
_BY_SM = {
    37: ("k80", "k80"),
    52: ("titan-x-maxwell", "titan-x-maxwell"),
    60: ("p100-sxm2", "p100-pcie"),
    61: ("p40", "p40"),
    70: ("v100-sxm2-16gb", "v100-pcie-16gb"),
    75: ("t4", "t4"),
    80: ("a100-sxm-40gb", "a100-pcie-40gb"),
    90: ("h100-sxm", "h100-pcie"),
}

# GT/s of one lane: generation, and bits of payload per bit on the wire.
_PCIE = {
    2.5: (1, 8 / 10),
    5.0: (2, 8 / 10),
    8.0: (3, 128 / 130),
    16.0: (4, 128 / 130),
    32.0: (5, 128 / 130),
    64.0: (6, 242 / 256),
}
_IN_CATALOGUE = {(3, 8), (3, 16), (4, 8), (4, 16), (5, 16)}
_SPEED = re.compile(r"([\d.]+)\s*GT/s.*")

_INFINIBAND = {56_000: "ib-fdr", 100_000: "ib-edr", 200_000: "ib-hdr", 400_000: "ib-ndr"}
_ROCE = {25_000, 50_000, 100_000, 200_000, 400_000}
_ETHERNET = {1_000, 10_000, 25_000, 40_000, 50_000, 100_000, 200_000, 400_000}


def gpu_of(pci: Mapping[str, str], gpu: Element) -> tuple[str, str]:
    """The catalogue's GPU for a <pci> and its <gpu>, and why.

    Raises ImportFileError for one that it does not have.
    """
    device, sm = pci.get("device", "").lower(), gpu.number("sm", 10, 1000)
    if device in _BY_DEVICE:
        return _BY_DEVICE[device], f"PCI device {device} in the file"
    with_nvlinks, without = _BY_SM.get(sm, ("", ""))
    if not with_nvlinks:
        known = ", ".join(str(known) for known in _BY_SM)
        raise ImportFileError(
            f"sm must be one that the catalogue has a GPU of ({known}), but got {sm}; name a GPU "
            "with --gpu",
            gpu.line,
        )
    nvlinks = any(gpu.all("nvlink"))
    return (
        with_nvlinks if nvlinks else without,
        f"assumed from the file: compute capability {sm / 10} {'with' if nvlinks else 'without'} "
        "NVLinks",
    )


def pcie_link(pci: Mapping[str, str], assumed: str) -> tuple[float, Choice]:
    """GB/s and the catalogue's link for an element's link_speed and link_width, one written out for
    rarer ones.

    Where the file says neither, the link is ``assumed``, at an unlimited rate.
    """
    speed, width = pci.get("link_speed", ""), pci.get("link_width", "")
    match = _SPEED.fullmatch(speed.strip())
    rate = float(match[1]) if match and match[1].count(".") <= 1 else 0.0
    lanes = int(width) if width.isdecimal() else 0
    if rate not in _PCIE or not 1 <= lanes <= 32:
        return float("inf"), Choice(
            assumed, "assumed where the file does not say link_speed and link_width"
        )
    number, code = _PCIE[rate]
    payload = rate * lanes * code / 8
    if (number, lanes) in _IN_CATALOGUE:
        return payload, Choice(f"pcie{number}-x{lanes}", f"{rate:g} GT/s x {lanes} in the file")
    said = f"NCCL's topology file: {rate:g} GT/s x {lanes} lanes"
    return payload, Choice(
        _link_text(f"{payload:.6g} GB/s", said, "0.762", "0.5 us", "pcie3-x16"), said
    )


def _link_text(rate: str, source: str, achievable: str, latency: str, like: str) -> str:
    """A link written out in a node's file; ``source`` may hold text from anywhere."""
    alike = json.dumps(f"assumed: as {like}")
    return (
        f"{{rate: {{value: {rate}, source: {json.dumps(source)}}}, achievable: {{value: {achievable}, source: {alike}}}, "
        f"latency: {{value: {latency}, source: {alike}}}}}"
    )


def smp_link(cpu: Mapping[str, str], usual: str) -> tuple[str, str]:
    """The catalogue's link between two sockets of a <cpu>, and why; ``usual`` for a CPU that is not
    known.
    """
    vendor, model = cpu.get("vendor", ""), cpu.get("modelid", "")
    number = int(model) if model.isdecimal() else -1
    if "AMD" in vendor:
        return "xgmi2", "assumed: usual between sockets of AMD EPYC"
    if vendor == "GenuineIntel" and number >= 0:
        link = "qpi" if number < 85 else "upi" if number == 85 else "upi2"
        return link, f"assumed: usual between sockets of Intel CPUs of model {number}"
    return usual, "assumed: the file does not tell the CPU"


def net_link(name: str, megabits: int, pci_class: str) -> Choice:
    """The catalogue's link for a <net> of so many Mbit/s.

    InfiniBand by its card's class, RoCE by an RDMA name, else Ethernet.

    A speed that the catalogue lacks is written out, with the latency of its kind.
    """
    said = f"{name} at {megabits:,} Mbit/s in the file"
    if pci_class.startswith("0x0207"):
        if megabits in _INFINIBAND:
            return Choice(_INFINIBAND[megabits], f"{said}, an InfiniBand card")
        return _written_out(megabits, said, "3 us", "ib-hdr")
    rdma = re.match(r"(mlx|bnxt_re|irdma|rdma|roce|rocep|efa|ibp)", name) is not None
    if rdma:
        known = f"roce-{megabits // 1000}g" if megabits in _ROCE else None
        return (
            Choice(known, f"{said}, with RDMA over Ethernet")
            if known
            else _written_out(megabits, said, "3 us", "roce-100g")
        )
    if megabits in _ETHERNET:
        return Choice(f"ethernet-{megabits // 1000}g", f"{said}, taken for sockets over Ethernet")
    return _written_out(megabits, said, "25 us", "ethernet-100g")


def _written_out(megabits: int, said: str, latency: str, like: str) -> Choice:
    source = f"NCCL's topology file: {said.removesuffix(' in the file')}"
    return Choice(_link_text(f"{megabits / 1000:g} Gbit/s", source, "0.94", latency, like), source)
