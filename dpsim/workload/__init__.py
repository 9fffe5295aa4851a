"""The work of a training step: layers, their seconds on a GPU, memory and input.

Depends only on `base`, and not on the network models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand
from dpsim.workload.builder import Builder
from dpsim.workload.compute_law import (
    CONSTANTS,
    PARTS,
    WITHOUT_TENSOR_CORES,
    Constants,
    LayerWork,
    Machine,
    composed,
    constants_file,
    constants_for,
    forget_constants,
    is_recurrent,
    members_of,
    of_products,
    saved_by_algorithms,
    standing_for,
)
from dpsim.workload.compute_times import (
    PRECISIONS,
    WIDTH,
    Accelerator,
    LayerTimes,
    Precision,
    compute_times,
    extrapolated_from,
    is_common,
    is_language_model,
    is_throttled,
)
from dpsim.workload.config import MOST_SAMPLES, WorkloadConfig, precision_named
from dpsim.workload.dataset import DatasetConfig, Epoch
from dpsim.workload.input import InputConfig, Loading, MemoryInput, Pipeline, StorageInput
from dpsim.workload.layer import KINDS, Kind, Layer, Model, Tensors
from dpsim.workload.learners import (
    LearnersRow,
    UtilisationPoint,
    averaging,
    best_learners,
    learners_table,
    measured_time,
    shared_times,
    stretch,
)
from dpsim.workload.memory import (
    CONTEXT,
    FRAGMENTATION,
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
from dpsim.workload.software import (
    BY_TIER,
    TIERS,
    Execution,
    Software,
)
from dpsim.workload.source import ConfigSource, ModelSource, ProfileSource, TorchSource

if TYPE_CHECKING:
    from dpsim.workload.measured_times import MeasuredTimes, between
    from dpsim.workload.module_hooks import NodeOwners, collect_outputs, hooked
    from dpsim.workload.profile import (
        MeasuredCollective,
        ModelProfile,
        ProfileLayer,
        load_model_profile,
        read_file,
    )
    from dpsim.workload.recompute import Recomputation, Recompute, kept_by_block
    from dpsim.workload.too_large import (
        Remedy,
        SplitWays,
        gpus_to_shard_over,
        longest_sequence,
        remedies,
        split_ways,
    )
    from dpsim.workload.torch_factory import check_factory, find_factory, import_torch
    from dpsim.workload.torch_trace import trace, trace_call, trace_module
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "ATTENTION_OF",
    "BY_TIER",
    "CONSTANTS",
    "CONTEXT",
    "FRAGMENTATION",
    "KINDS",
    "MODELS",
    "MOST_SAMPLES",
    "OPTIMIZERS",
    "PARTS",
    "PRECISIONS",
    "STAGES",
    "STAGE_NAMES",
    "TIERS",
    "WIDTH",
    "WITHOUT_TENSOR_CORES",
    "Accelerator",
    "Attention",
    "Builder",
    "ConfigSource",
    "Constants",
    "DatasetConfig",
    "Epoch",
    "Execution",
    "Footprint",
    "InputConfig",
    "Kind",
    "Layer",
    "LayerTimes",
    "LayerWork",
    "LearnersRow",
    "Loading",
    "Machine",
    "MeasuredCollective",
    "MeasuredTimes",
    "MemoryInput",
    "Model",
    "ModelProfile",
    "ModelSource",
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
    "SplitWays",
    "StorageInput",
    "Tensors",
    "TorchSource",
    "UtilisationPoint",
    "WorkloadConfig",
    "averaging",
    "best_learners",
    "between",
    "build_model",
    "canonical_name",
    "check_factory",
    "collect_outputs",
    "composed",
    "compute_times",
    "constants_file",
    "constants_for",
    "extrapolated_from",
    "find_factory",
    "footprint",
    "forget_constants",
    "gpus_to_shard_over",
    "hooked",
    "import_torch",
    "is_common",
    "is_in_8_bits",
    "is_language_model",
    "is_recurrent",
    "is_throttled",
    "kept_by_block",
    "largest_batch",
    "learners_table",
    "load_model_profile",
    "longest_sequence",
    "measured_time",
    "members_of",
    "of_products",
    "offloaded_bytes",
    "optimizer_state_bytes",
    "precision_named",
    "read_file",
    "remedies",
    "saved_by_algorithms",
    "shared_times",
    "split_ways",
    "standing_for",
    "state_bytes",
    "stretch",
    "trace",
    "trace_call",
    "trace_module",
    "update_bytes",
    "update_rounds",
]
