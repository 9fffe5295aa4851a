"""The description of a GPU: compute rates, memory and power, its ports, and its names in tools.

A GPU's YAML is the only place that states its figures. The compute model, NCCL's model, the
importers and the comparisons with published tables all read it from here.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PositiveInt

from dpsim.base.config import Config
from dpsim.hardware.catalogue import Catalogue, by_name
from dpsim.hardware.link import links, pcie_link_name
from dpsim.hardware.sourced import (
    USER_GIVEN,
    SourcedBytes,
    SourcedCapability,
    SourcedRate,
    SourcedSpeed,
    SourcedWatts,
)

Precision = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "nvfp4", "int8"]
Architecture = Literal[
    "kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ampere-ga10x", "ada", "hopper",
    "blackwell", "blackwell-gb20x", "cdna", "cdna2", "cdna3", "cdna4", "tpu", "other",
]  # fmt: skip

# Of each generation (NVIDIA, CUDA C++ programming guide, compute capabilities).
_FIRST_CAPABILITY: dict[Architecture, float] = {
    "kepler": 3.5,
    "maxwell": 5.2,
    "pascal": 6.0,
    "volta": 7.0,
    "turing": 7.5,
    "ampere": 8.0,
    "ampere-ga10x": 8.6,
    "ada": 8.9,
    "hopper": 9.0,
    "blackwell": 10.0,
    "blackwell-gb20x": 12.0,
}

_MIN_FLASH_CAPABILITY = 80  # ten times the first compute capability that supports it
_FLASH_ATTENTION_ON = ("cdna2", "cdna3", "cdna4", "tpu")  # not NVIDIA's

# A name, so that reading a GPU does not read the files of unused links.
LinkName = Annotated[str, AfterValidator(lambda name: links().canonical(name))]


class NvLinkPorts(Config):
    """The NVLinks of one GPU."""

    link: LinkName = Field(description="Catalogue link of the generation, such as nvlink3.")
    count: PositiveInt = Field(le=64, description="Number of NVLinks per GPU.")
    bridge: bool = Field(
        default=False,
        description=(
            "Whether bridges connect only a few cards, and PCIe connects all GPUs of a machine."
        ),
    )
    source: str = Field(default=USER_GIVEN, description="Source of the values.")

    @property
    def rate(self) -> float:
        """Total nominal B/s in one direction."""
        return links()[self.link].rate.value * self.count


class PciePort(Config):
    """The GPU's own PCIe link."""

    generation: int = Field(ge=1, le=6, description="Generation of PCI Express.")
    lanes: int = Field(default=16, ge=1, le=16, description="Number of lanes.")
    source: str = Field(default=USER_GIVEN, description="Source of the values.")

    @property
    def link(self) -> str:
        """The name of such a link in the catalogue."""
        return pcie_link_name(self.generation, self.lanes)


class Gpu(Config):
    """One device as a framework sees it, such as one die of a board with two."""

    name: str = Field(default="inline", description="Name in the catalogue.")
    aliases: tuple[str, ...] = Field(
        default=(), description="Other names, including names in tables and tools."
    )
    description: str = Field(default="", description="Description, and pitfalls.")
    architecture: Architecture = Field(default="other", description="GPU generation.")
    compute_capability: SourcedCapability | None = Field(
        default=None,
        description=(
            "NVIDIA's compute capability, such as 7.0; if left out, the generation's first."
        ),
    )
    peak: dict[Precision, SourcedSpeed] = Field(
        min_length=1,
        description=(
            "Dense peak FLOP/s of each supported precision, with tensor cores if frameworks use "
            "them."
        ),
    )
    memory: SourcedBytes = Field(
        description=(
            "Device memory available to processes, in bytes, as nvidia-smi or rocm-smi shows it. "
            "The vendor's GB are GiB, minus the share of error correction and the driver."
        )
    )
    memory_bandwidth: SourcedRate = Field(
        description="Nominal bandwidth of the device memory, in B/s."
    )
    power: SourcedWatts | None = Field(default=None, description="Thermal design power, in watts.")
    nvlink: NvLinkPorts | None = Field(default=None, description="NVLinks, if any.")
    pcie: PciePort | None = Field(default=None, description="PCIe link.")
    dies: PositiveInt = Field(
        default=1,
        le=4,
        description="Number of dies per board; they share its PCIe link.",
    )
    peer_access: bool = Field(
        default=True,
        description="Whether the driver allows peer-to-peer copies that bypass host memory.",
    )
    network: SourcedRate | None = Field(
        default=None,
        description=(
            "Network rate per GPU of the vendor's own machine, in B/s, for tables without network "
            "cards."
        ),
    )
    pci_ids: tuple[str, ...] = Field(
        default=(), description="PCI device IDs (from the PCI ID Repository), such as 0x1db1."
    )
    typical: bool = Field(
        default=False,
        description="Whether tools that state only a compute capability mean this GPU.",
    )

    @property
    def capability(self) -> int | None:
        """Ten times its compute capability, as in NCCL; None for GPUs not made by NVIDIA."""
        if self.compute_capability is not None:
            return round(10 * self.compute_capability.value)
        first = _FIRST_CAPABILITY.get(self.architecture)
        return None if first is None else round(10 * first)

    @property
    def flash_attention(self) -> bool:
        """Whether it runs attention in one kernel that never writes the scores.

        FlashAttention 2 needs Ampere or later, or AMD's MI200 or later (its README); JAX has such a
        kernel for TPUs (Pallas).
        """
        if self.capability is None:
            return self.architecture in _FLASH_ATTENTION_ON
        return self.capability >= _MIN_FLASH_CAPABILITY

    @property
    def nvlink_fabric(self) -> NvLinkPorts | None:
        """The NVLinks, if they join all GPUs of a machine, not only cards with a bridge."""
        return None if self.nvlink is None or self.nvlink.bridge else self.nvlink

    def __repr__(self) -> str:
        return f"<Gpu {self.name}>"

    __str__ = __repr__


@cache
def gpus() -> Catalogue[Gpu]:
    """Return the GPUs of the catalogue, by name or alias."""
    return Catalogue("GPU", "gpus", Gpu)


@cache
def typical_gpus() -> tuple[Gpu, ...]:
    """Return the GPU that stands for each compute capability, oldest first."""
    # By their text, so that the others need not be parsed.
    found = [gpus()[name] for name in gpus().with_line_starting("typical: true")]
    return tuple(sorted(found, key=lambda gpu: (gpu.capability or 0, gpu.name)))


def gpu_by_pci_id(device: str) -> Gpu | None:
    """Return the GPU with a PCI device ID such as 0x1db1, or None."""
    # By their text first, so that only entries with such IDs are parsed.
    for name in gpus().with_line_starting("pci_ids:"):
        if device in gpus()[name].pci_ids:
            return gpus()[name]
    return None


# A field that accepts a catalogue name or a GPU's description, and holds the Gpu.
GpuRef = Annotated[Gpu, by_name(gpus, Gpu)]
