"""The hardware catalogue: GPUs, links and nodes, one YAML file each, with a source for each number.

It uses only `base`.

``gpus()["V100"]``, ``links()["25GbE"]`` and ``nodes()["dgx1-v100"]`` read one file on first use.
The field types `GpuRef`, `LinkRef` and `NodeRef` let a scenario name a catalogue entry or describe
its own.
"""

from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand
from dpsim.hardware.calibration import (
    COMPUTE,
    NODE,
    STEPS,
    TRANSPORT,
    CalibrationProfile,
    ProfileRef,
    load_profile,
)
from dpsim.hardware.catalogue import Catalogue, normalised, own_folder
from dpsim.hardware.gpu import (
    Gpu,
    GpuRef,
    NvLinkPorts,
    PciePort,
    Precision,
    gpu_by_pci_id,
    gpus,
    typical_gpus,
)
from dpsim.hardware.gpu_in_text import gpu_named_in
from dpsim.hardware.link import Link, LinkRef, links, pcie_link_name, pcie_rate
from dpsim.hardware.measured import (
    Counted,
    Measured,
    MeasuredModel,
    Parameter,
    RankSpread,
    Residuals,
)
from dpsim.hardware.node import MOST_DEVICES, Edge, Nics, Node, NodeRef, device_kind, nodes
from dpsim.hardware.sourced import USER_GIVEN, Sourced, SourcedFraction, SourcedRate, SourcedTime
from dpsim.hardware.step_constants import KnownRun, StepConstants, any_multi_node
from dpsim.hardware.transport import Transport

if TYPE_CHECKING:
    from dpsim.hardware.own import Added, add_entry
    from dpsim.hardware.prices import CURRENCY, list_price
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "COMPUTE",
    "CURRENCY",
    "MOST_DEVICES",
    "NODE",
    "STEPS",
    "TRANSPORT",
    "USER_GIVEN",
    "Added",
    "CalibrationProfile",
    "Catalogue",
    "Counted",
    "Edge",
    "Gpu",
    "GpuRef",
    "KnownRun",
    "Link",
    "LinkRef",
    "Measured",
    "MeasuredModel",
    "Nics",
    "Node",
    "NodeRef",
    "NvLinkPorts",
    "Parameter",
    "PciePort",
    "Precision",
    "ProfileRef",
    "RankSpread",
    "Residuals",
    "Sourced",
    "SourcedFraction",
    "SourcedRate",
    "SourcedTime",
    "StepConstants",
    "Transport",
    "add_entry",
    "any_multi_node",
    "device_kind",
    "gpu_by_pci_id",
    "gpu_named_in",
    "gpus",
    "links",
    "list_price",
    "load_profile",
    "nodes",
    "normalised",
    "own_folder",
    "pcie_link_name",
    "pcie_rate",
    "typical_gpus",
]
