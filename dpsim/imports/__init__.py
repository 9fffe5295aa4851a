"""Read other tools' files as nodes, models, scenarios, calibration profiles and step times.

It knows hardware, workload, disturbance, collectives and scenarios, and takes every file to be
hostile.
"""

from dpsim.imports.accelerate import scenario_from_accelerate
from dpsim.imports.deepspeed import scenario_from_deepspeed
from dpsim.imports.draft import NodeDraft
from dpsim.imports.first_scenario import (
    STRATEGIES,
    Answers,
    Recipe,
    machine_for,
    names_file,
    scenario_from_answers,
    strategy_named,
)
from dpsim.imports.kineto import profile_kineto, profile_with_communication
from dpsim.imports.kineto_ranks import (
    RankSkew,
    RankTraces,
    StepSkew,
    disturbance_of,
    histogram_of,
    read_ranks,
    trace_files,
)
from dpsim.imports.nccl_inspector import InspectorLog, read_inspector
from dpsim.imports.nccl_tests import parse_nccl_tests
from dpsim.imports.nccl_tests_fit import fit_nccl_tests
from dpsim.imports.nccl_tests_log import NcclTestsLog
from dpsim.imports.nccl_topo import node_from_nccl_topo
from dpsim.imports.network_draft import NetworkOptions
from dpsim.imports.nsys import NsysReport, NsysStep, read_nsys_profile
from dpsim.imports.nvidia_topo import TopoMatrix, node_from_nvidia_topo, parse_nvidia_topo
from dpsim.imports.options import NodeOptions
from dpsim.imports.reading import ImportFileError, read_input
from dpsim.imports.scenario_draft import ScenarioDraft, TrainingSizes
from dpsim.imports.slurm_topology import SlurmOptions, scenario_from_slurm
from dpsim.imports.step_logs import read_step_log
from dpsim.imports.torch_model import profile_torch
from dpsim.imports.torchtitan import scenario_from_torchtitan
from dpsim.imports.traced_steps import read_traced_steps
from dpsim.imports.trainer_dialects import scenario_from_dialect

__all__ = [
    "STRATEGIES",
    "Answers",
    "ImportFileError",
    "InspectorLog",
    "NcclTestsLog",
    "NetworkOptions",
    "NodeDraft",
    "NodeOptions",
    "NsysReport",
    "NsysStep",
    "RankSkew",
    "RankTraces",
    "Recipe",
    "ScenarioDraft",
    "SlurmOptions",
    "StepSkew",
    "TopoMatrix",
    "TrainingSizes",
    "disturbance_of",
    "fit_nccl_tests",
    "histogram_of",
    "machine_for",
    "names_file",
    "node_from_nccl_topo",
    "node_from_nvidia_topo",
    "parse_nccl_tests",
    "parse_nvidia_topo",
    "profile_kineto",
    "profile_torch",
    "profile_with_communication",
    "read_input",
    "read_inspector",
    "read_nsys_profile",
    "read_ranks",
    "read_step_log",
    "read_traced_steps",
    "scenario_from_accelerate",
    "scenario_from_answers",
    "scenario_from_deepspeed",
    "scenario_from_dialect",
    "scenario_from_slurm",
    "scenario_from_torchtitan",
    "strategy_named",
    "trace_files",
]
