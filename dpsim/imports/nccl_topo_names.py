"""Translate NCCL's words for GPUs, PCIe links, socket links and networks to the catalogue's."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from dpsim.hardware import gpu_by_pci_id, links, pcie_link_name, pcie_rate, typical_gpus
from dpsim.imports.options import Choice
from dpsim.imports.reading import ImportFileError
from dpsim.imports.xml_tree import Element

# GT/s per lane, by which NCCL names a generation of PCIe.
_PCIE_GENERATION = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_SPEED = re.compile(r"([\d.]+)\s*GT/s.*")

_FIRST_UPI = 85  # the model of Skylake and Cascade Lake, which introduced UPI

_INFINIBAND = {
    56_000: "ib-fdr",
    100_000: "ib-edr",
    200_000: "ib-hdr",
    400_000: "ib-ndr",
    800_000: "ib-xdr",
}


def gpu_of(pci: Mapping[str, str], gpu: Element) -> tuple[str, str]:
    """Return the catalogue's GPU for a <pci> and its <gpu>, and the reason.

    Raises ImportFileError for an unknown one.
    """
    device, sm = pci.get("device", "").lower(), gpu.number("sm", 10, 1000)
    known = gpu_by_pci_id(device)
    if known is not None:
        return known.name, f"PCI device {device} in the file"
    nvlinks = any(gpu.all("nvlink"))
    alike = [typical for typical in typical_gpus() if typical.capability == sm]
    if not alike:
        capabilities = sorted({typical.capability or 0 for typical in typical_gpus()})
        raise ImportFileError(
            "sm must be one that the catalogue has a GPU of "
            f"({', '.join(map(str, capabilities))}), but got {sm}; name a GPU with --gpu",
            gpu.line,
        )
    # Compare with the module's own NVLinks, since any card may have a bridge for two.
    fitting = [typical for typical in alike if (typical.nvlink_fabric is not None) == nvlinks]
    return (
        (fitting or alike)[0].name,
        f"assumed from the file: compute capability {sm / 10} {'with' if nvlinks else 'without'} "
        "NVLinks",
    )


def pcie_link(pci: Mapping[str, str], assumed: str) -> tuple[float, Choice]:
    """Return GB/s and the link of an element with a link_speed and a link_width.

    A link that is not in the catalogue is written out. Without speed and width in the file, the
    link is ``assumed``, with an unlimited rate.
    """
    speed, width = pci.get("link_speed", ""), pci.get("link_width", "")
    match = _SPEED.fullmatch(speed.strip())
    rate = float(match[1]) if match and match[1].count(".") <= 1 else 0.0
    lanes = int(width) if width.isdecimal() else 0
    # Unlimited, so that it is never the slower of two links in a row.
    if rate not in _PCIE_GENERATION or not 1 <= lanes <= 32:
        return float("inf"), Choice(
            assumed, "assumed where the file does not say link_speed and link_width"
        )
    generation = _PCIE_GENERATION[rate]
    payload = pcie_rate(generation, lanes) / 1e9
    name = pcie_link_name(generation, lanes)
    if name in links():
        return payload, Choice(name, f"{rate:g} GT/s x {lanes} in the file")
    source = f"NCCL's topology file: {rate:g} GT/s x {lanes} lanes"
    return payload, Choice(
        _link_text(f"{payload:.6g} GB/s", source, "0.762", "0.5 us", "pcie3-x16"), source
    )


def _link_text(rate: str, source: str, achievable: str, latency: str, like: str) -> str:
    """Return a link written out in a node's file; ``source`` may be untrusted text."""
    alike = json.dumps(f"assumed: as {like}")
    return (
        f"{{rate: {{value: {rate}, source: {json.dumps(source)}}}, "
        f"achievable: {{value: {achievable}, source: {alike}}}, "
        f"latency: {{value: {latency}, source: {alike}}}}}"
    )


def smp_link(cpu: Mapping[str, str], usual: str) -> tuple[str, str]:
    """Return the catalogue's link between two sockets of a <cpu>, and the reason.

    ``usual`` is the link of an unknown CPU.
    """
    vendor, model = cpu.get("vendor", ""), cpu.get("modelid", "")
    number = int(model) if model.isdecimal() else -1
    if "AMD" in vendor:
        return "xgmi2", "assumed: usual between sockets of AMD EPYC"
    if vendor == "GenuineIntel" and number >= 0:
        link = "upi2"
        if number <= _FIRST_UPI:
            link = "upi" if number == _FIRST_UPI else "qpi"
        return link, f"assumed: usual between sockets of Intel CPUs of model {number}"
    return usual, "assumed: the file does not tell the CPU"


def net_link(name: str, megabits: int, pci_class: str) -> Choice:
    """Return the catalogue's link for a <net> of ``megabits`` Mbit/s.

    InfiniBand by its card's class, RoCE by an RDMA name, otherwise Ethernet. An unknown speed is
    written out, with the latency of its kind.
    """
    source = f"{name} at {megabits:,} Mbit/s in the file"
    if pci_class.startswith("0x0207"):
        if megabits in _INFINIBAND:
            return Choice(_INFINIBAND[megabits], f"{source}, an InfiniBand card")
        return _written_out(megabits, source, "3 us", "ib-hdr")
    kind, why, latency = "ethernet", "taken for sockets over Ethernet", "25 us"
    if re.match(r"(mlx|bnxt_re|irdma|rdma|roce|rocep|efa|ibp)", name):
        kind, why, latency = "roce", "with RDMA over Ethernet", "3 us"
    known = f"{kind}-{megabits / 1000:g}g"
    if known in links():
        return Choice(known, f"{source}, {why}")
    return _written_out(megabits, source, latency, f"{kind}-100g")


def _written_out(megabits: int, source: str, latency: str, like: str) -> Choice:
    source = f"NCCL's topology file: {source.removesuffix(' in the file')}"
    return Choice(_link_text(f"{megabits / 1000:g} Gbit/s", source, "0.94", latency, like), source)
