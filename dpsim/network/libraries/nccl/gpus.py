"""The properties of a catalogue GPU that NCCL's model uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from dpsim.hardware import Gpu, Link, gpu_named_in, gpus, typical_gpus

if TYPE_CHECKING:
    from dpsim.topology import GpuRings

# The GPU assumed for tables that name none.
_ASSUMED_NVIDIA = "a100-sxm-40gb"
_ASSUMED_AMD = "mi300x"
_AMD = re.compile(r"\b(?:amd|radeon|instinct|mi\d{2,3}[a-z]?)\b", re.IGNORECASE)

# AMD's GPUs have no compute capability. RCCL uses Hopper's NVLink constants, of the same years: any
# value from 90 to 99 selects them.
_RCCL_CAPABILITY = 94
_DEFAULT_NIC_RATE = 12.5e9  # B/s of the card beside a GPU, if the catalogue does not state it


def named_gpu(text: str) -> tuple[Gpu, bool]:
    """Return the GPU that ``text`` names, or an A100 or MI300X, and whether one was recognised."""
    found = gpu_named_in(text)
    if found is not None:
        return found, True
    return gpus()[_ASSUMED_AMD if _AMD.search(text) else _ASSUMED_NVIDIA], False


def is_amd(gpu: Gpu) -> bool:
    """Return whether it is an AMD GPU, which RCCL supports."""
    return gpu.architecture.startswith("cdna")


def capability_of(gpu: Gpu) -> int:
    """Return ten times the compute capability (of AMD, a stand-in): it selects the constants."""
    return gpu.capability or _RCCL_CAPABILITY


def nvlink_rate(gpu: Gpu) -> float:
    """Return the one-way B/s of the NVLinks that join all GPUs of a machine; 0 for bridges."""
    return 0.0 if gpu.nvlink_fabric is None else gpu.nvlink_fabric.rate


def direct_rings(
    gpu: Gpu, devices: Sequence[str], edges: Iterable[tuple[str, str, Link, int]]
) -> GpuRings:
    """Return the rings over ``devices``, all a ``gpu``, by the NVLinks or xGMI links between them.

    Links to the host carry no traffic between GPUs, and are not counted.
    """
    from dpsim.topology import gpu_rings

    family = "xgmi" if is_amd(gpu) else "nvlink"
    return gpu_rings(devices, [edge for edge in edges if family in edge[2].name])


@cache
def full_nvlink_rate(capability: int) -> float:
    """Return the `nvlink_rate` of full GPUs of a compute capability (times ten).

    For an unknown capability it is the rate of the one before, or else of the first.
    """
    rates = {capability_of(gpu): nvlink_rate(gpu) for gpu in typical_gpus() if nvlink_rate(gpu)}
    return rates[max((known for known in rates if known <= capability), default=min(rates))]


def pcie_generation(gpu: Gpu) -> int:
    """Return the generation of its PCIe link; 3 if the catalogue does not state it."""
    return 3 if gpu.pcie is None else gpu.pcie.generation


def network_rate(gpu: Gpu) -> float:
    """Return the one-way B/s of the network card beside it in its maker's machine."""
    return _DEFAULT_NIC_RATE if gpu.network is None else gpu.network.value
