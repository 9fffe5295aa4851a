"""The work of a training step: layers, their time on a GPU, memory and input.

Depends only on `base`, and not on the network models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand
from dpsim.workload.builder import Builder
from dpsim.workload.compute_constants import (
    CONSTANTS,
    PARTS,
    WITHOUT_TENSOR_CORES,
    Constants,
    composed,
    constants_file,
    constants_for,
    constants_from,
    forget_constants,
    measured_generation,
    members_of,
)
from dpsim.workload.compute_law import LayerWork, Machine, flop_reduction
from dpsim.workload.compute_times import (
    WIDTH,
    Accelerator,
    LayerTimes,
    Precision,
    compute_times,
    is_gpu_bound,
    is_language_model,
    is_throttled,
)
from dpsim.workload.config import MOST_SAMPLES, WorkloadConfig, precision_named
from dpsim.workload.dataset import Epoch
from dpsim.workload.input import Loading, Pipeline
from dpsim.workload.layer import KINDS, Kind, Layer, Model, Tensors
from dpsim.workload.learners import (
    LearnersRow,
    averaging,
    learners_table,
    measured_time,
    shared_times,
    stretch,
)
from dpsim.workload.memory import (
    STAGE_NAMES,
    STAGES,
    Footprint,
    Setup,
    footprint,
    largest_batch,
    offloaded_bytes,
    state_bytes,
)
from dpsim.workload.models import ATTENTION_OF, MODELS, Attention, build_model, canonical_name
from dpsim.workload.optimizers import (
    OPTIMIZERS,
    Optimizer,
    is_in_8_bits,
    optimizer_state_bytes,
    update_bytes,
    update_rounds,
)
from dpsim.workload.program import Program
from dpsim.workload.recompute import Recomputation, Recompute, kept_by_block
from dpsim.workload.software import Software
from dpsim.workload.source import ConfigSource, ProfileSource, TorchSource

if TYPE_CHECKING:
    from dpsim.workload.measured_times import MeasuredTimes, between
    from dpsim.workload.module_hooks import NodeOwners, collect_outputs, hooked
    from dpsim.workload.profile import (
        LongLayer,
        MeasuredCollective,
        ModelProfile,
        ProfileLayer,
        TracedStep,
        load_model_profile,
        read_file,
    )
    from dpsim.workload.too_large import (
        LeastSplit,
        Remedy,
        gpus_to_shard_over,
        least_split,
        longest_sequence,
        remedies,
    )
    from dpsim.workload.torch_factory import check_factory, find_factory, import_torch
    from dpsim.workload.torch_trace import trace, trace_module
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "ATTENTION_OF",
    "CONSTANTS",
    "KINDS",
    "MODELS",
    "MOST_SAMPLES",
    "OPTIMIZERS",
    "PARTS",
    "STAGES",
    "STAGE_NAMES",
    "WIDTH",
    "WITHOUT_TENSOR_CORES",
    "Accelerator",
    "Attention",
    "Builder",
    "ConfigSource",
    "Constants",
    "Epoch",
    "Footprint",
    "Kind",
    "Layer",
    "LayerTimes",
    "LayerWork",
    "LearnersRow",
    "LeastSplit",
    "Loading",
    "LongLayer",
    "Machine",
    "MeasuredCollective",
    "MeasuredTimes",
    "Model",
    "ModelProfile",
    "NodeOwners",
    "Optimizer",
    "Pipeline",
    "Precision",
    "ProfileLayer",
    "ProfileSource",
    "Program",
    "Recomputation",
    "Recompute",
    "Remedy",
    "Setup",
    "Software",
    "Tensors",
    "TorchSource",
    "TracedStep",
    "WorkloadConfig",
    "averaging",
    "between",
    "build_model",
    "canonical_name",
    "check_factory",
    "collect_outputs",
    "composed",
    "compute_times",
    "constants_file",
    "constants_for",
    "constants_from",
    "find_factory",
    "flop_reduction",
    "footprint",
    "forget_constants",
    "gpus_to_shard_over",
    "hooked",
    "import_torch",
    "is_gpu_bound",
    "is_in_8_bits",
    "is_language_model",
    "is_throttled",
    "kept_by_block",
    "largest_batch",
    "learners_table",
    "least_split",
    "load_model_profile",
    "longest_sequence",
    "measured_generation",
    "measured_time",
    "members_of",
    "offloaded_bytes",
    "optimizer_state_bytes",
    "precision_named",
    "read_file",
    "remedies",
    "shared_times",
    "state_bytes",
    "stretch",
    "trace",
    "trace_module",
    "update_bytes",
    "update_rounds",
]
