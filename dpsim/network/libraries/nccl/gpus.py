"""What NCCL's model asks of a GPU of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from dpsim.hardware import Gpu, Link, gpu_named_in, gpus, typical_gpus

if TYPE_CHECKING:
    from dpsim.topology import GpuRings

# What tables that name no GPU are taken to be of: assumptions, about texts and not about GPUs.
_ASSUMED = "a100-sxm-40gb"
_ASSUMED_OF_AMD = "mi300x"
_OF_AMD = re.compile(r"\b(?:amd|radeon|instinct|mi\d{2,3}[a-z]?)\b", re.IGNORECASE)

# RCCL has no compute capability. Its constants here are NVLink's of the same years, Hopper's.
_RCCL = 94
_NETWORK = 12.5e9  # B/s of the card beside a GPU of which the catalogue does not say it


def named_gpu(text: str) -> tuple[Gpu, bool]:
    """The GPU that ``text`` names, and whether one was recognised; if not, an A100 or MI300X."""
    found = gpu_named_in(text)
    if found is not None:
        return found, True
    return gpus()[_ASSUMED_OF_AMD if _OF_AMD.search(text) else _ASSUMED], False


def is_amd(gpu: Gpu) -> bool:
    """Whether it is one of AMD's, which RCCL serves."""
    return gpu.architecture.startswith("cdna")


def capability_of(gpu: Gpu) -> int:
    """Ten times the compute capability that NCCL chooses its constants by."""
    return gpu.capability or _RCCL


def nvlink_rate(gpu: Gpu) -> float:
    """B/s one way of the NVLinks that join all GPUs of a machine; 0 where bridges join pairs."""
    return 0.0 if gpu.nvlink_fabric is None else gpu.nvlink_fabric.rate


def direct_rings(
    gpu: Gpu, devices: Sequence[str], edges: Iterable[tuple[str, str, Link, int]]
) -> GpuRings:
    """The rings over these ``devices``, all a ``gpu``, by the NVLinks or xGMI links between them.

    A link to the host carries none of what GPUs exchange, and is not counted.
    """
    from dpsim.topology import gpu_rings

    family = "xgmi" if is_amd(gpu) else "nvlink"
    return gpu_rings(devices, [edge for edge in edges if family in edge[2].name])


@cache
def full_nvlink_rate(capability: int) -> float:
    """`nvlink_rate` of the GPUs of a compute capability (times ten) that have all their links.

    Of a capability without such GPUs that of the latest before it, or else of the first after it.
    """
    rates = {capability_of(gpu): nvlink_rate(gpu) for gpu in typical_gpus() if nvlink_rate(gpu)}
    return rates[max((known for known in rates if known <= capability), default=min(rates))]


def pcie_generation(gpu: Gpu) -> int:
    """The generation of its PCIe link; 3 where the catalogue does not say it."""
    return 3 if gpu.pcie is None else gpu.pcie.generation


def network_rate(gpu: Gpu) -> float:
    """B/s one way of the network card that stands beside it in its maker's machine."""
    return _NETWORK if gpu.network is None else gpu.network.value
