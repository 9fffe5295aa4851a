"""GPUs by the words that tables name them with.

Compute capability, link rates, and the network cards sold with them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

_UNKNOWN = "unknown"


class _Known(NamedTuple):
    """``pattern`` finds it; rates as in `GpuFacts`."""

    pattern: str
    capability: int
    nvlink_rate: float
    pcie_generation: int
    nic_bits: float


# Sources: NVIDIA data sheets; network cards per GPU of the maker's own machine: DGX-1 4 x 100
# Gbit/s for 8 GPUs, DGX A100 8 x 200, DGX H100 and B200 8 x 400, DGX B300 8 x 800. The first
# pattern that is found counts.
_GPUS = (
    _Known(r"gb300|\bb300", 103, 900e9, 6, 800e9),
    _Known(r"gb200|\bb200|\bb100", 100, 900e9, 5, 400e9),
    _Known(r"rtx[ _-]?pro[ _-]?[456]\d00|rtx[ _-]?50\d\d|\b50[789]0", 120, 0.0, 5, 200e9),
    _Known(r"rubin|vr200", 107, 1800e9, 6, 800e9),
    _Known(r"h100[ _-]?pcie|h100[ _-]?nvl", 90, 0.0, 5, 400e9),
    _Known(r"h800", 90, 200e9, 5, 400e9),
    _Known(r"h20\b", 90, 450e9, 5, 400e9),
    _Known(r"gh200|\bh[12]00|\bh200", 90, 450e9, 5, 400e9),
    _Known(r"l40s?|\bl4\b|rtx[ _-]?6000[ _-]?ada|(rtx)?[ _-]?40[6789]0", 89, 0.0, 4, 100e9),
    _Known(r"a100[ _-]?pcie", 80, 0.0, 4, 200e9),
    _Known(r"a800", 80, 200e9, 4, 200e9),
    _Known(r"\ba100", 80, 300e9, 4, 200e9),
    _Known(r"\ba10g?\b|\ba40\b|\ba6000|\ba30\b|(rtx)?[ _-]?30[6789]0", 86, 0.0, 4, 100e9),
    _Known(r"\bt4\b|rtx[ _-]?20[678]0|2080|rtx[ _-]?[68]000", 75, 0.0, 3, 50e9),
    _Known(r"v100[ _-]?pcie", 70, 0.0, 3, 100e9),
    _Known(r"v100", 70, 150e9, 3, 50e9),
    _Known(r"p100[ _-]?pcie", 60, 0.0, 3, 100e9),
    _Known(r"p100", 60, 80e9, 3, 50e9),
    _Known(r"k80|m60|m40|p40\b|1080|titan", 50, 0.0, 3, 25e9),
    _Known(r"mi3[025]\d|mi2\d\d|mi100", 94, 0.0, 5, 400e9),
)


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What a GPU's name alone says.

    NVLink B/s one way (0: none), PCIe generation, bit/s of the network card sold with it.
    """

    name: str
    capability: int
    nvlink_rate: float
    pcie_generation: int
    nic_bits: float

    @property
    def known(self) -> bool:
        """Whether the name was recognised."""
        return self.name != _UNKNOWN

    @property
    def is_amd(self) -> bool:
        """Whether it is one of AMD's, which RCCL serves."""
        return self.name.startswith("mi")


def gpu_facts(text: str) -> GpuFacts:
    """The first GPU named in ``text``; an A100-class part called "unknown" where none is
    recognised.
    """
    lower = text.lower().replace("/", " ")
    for known in _GPUS:
        found = re.search(known.pattern, lower)
        if found:
            return GpuFacts(found.group(0).strip(), *known[1:])
    return GpuFacts(_UNKNOWN, 80, 300e9, 4, 100e9)
