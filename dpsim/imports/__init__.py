"""What other tools wrote, read into nodes, models and calibration profiles.

It knows hardware, workload and collectives, and takes every file to be hostile.
"""

from dpsim.imports.draft import NodeDraft
from dpsim.imports.kineto import profile_kineto
from dpsim.imports.nccl_tests import NcclTestsLog, parse_nccl_tests
from dpsim.imports.nccl_tests_fit import fit_nccl_tests
from dpsim.imports.nccl_topo import node_from_nccl_topo
from dpsim.imports.nvidia_topo import TopoMatrix, node_from_nvidia_topo, parse_nvidia_topo
from dpsim.imports.options import NodeOptions
from dpsim.imports.reading import ImportFileError, read_input
from dpsim.imports.torch_model import profile_torch

__all__ = [
    "ImportFileError",
    "NcclTestsLog",
    "NodeDraft",
    "NodeOptions",
    "TopoMatrix",
    "fit_nccl_tests",
    "node_from_nccl_topo",
    "node_from_nvidia_topo",
    "parse_nccl_tests",
    "parse_nvidia_topo",
    "profile_kineto",
    "profile_torch",
    "read_input",
]
