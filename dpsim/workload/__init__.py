"""What a training step computes: layers, their seconds on a GPU, memory and input.

It knows only `base`, and nothing of how transfers travel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand
from dpsim.workload.builder import Builder
from dpsim.workload.config import MOST_SAMPLES, WorkloadConfig, precision_named
from dpsim.workload.dataset import DatasetConfig, Epoch
from dpsim.workload.efficiency import (
    WITHOUT_TENSOR_CORES,
    Efficiency,
    Execution,
    constants,
    fitted,
    is_winograd,
)
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
from dpsim.workload.program import Program
from dpsim.workload.roofline import (
    OPTIMIZER_STATES,
    OPTIMIZERS,
    PRECISIONS,
    WIDTH,
    Accelerator,
    LayerTimes,
    Optimizer,
    Precision,
    compute_times,
    extrapolated_from,
    has_own_law,
    is_common,
    is_throttled,
    update_bytes,
)
from dpsim.workload.source import ConfigSource, ModelSource, ProfileSource, TorchSource

if TYPE_CHECKING:
    from dpsim.workload.module_hooks import NodeOwners, collect_outputs, hooked
    from dpsim.workload.profile import (
        MeasuredCollective,
        MeasuredTimes,
        ModelProfile,
        ProfileLayer,
        between,
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
    from dpsim.workload.transformer_times import (
        Shapes,
        TransformerEfficiency,
        standing_for,
        transformer_efficiency,
    )
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "ATTENTION_OF",
    "CONTEXT",
    "FRAGMENTATION",
    "KINDS",
    "MODELS",
    "MOST_SAMPLES",
    "OPTIMIZERS",
    "OPTIMIZER_STATES",
    "PRECISIONS",
    "STAGES",
    "STAGE_NAMES",
    "WIDTH",
    "WITHOUT_TENSOR_CORES",
    "Accelerator",
    "Attention",
    "Builder",
    "ConfigSource",
    "DatasetConfig",
    "Efficiency",
    "Epoch",
    "Execution",
    "Footprint",
    "InputConfig",
    "Kind",
    "Layer",
    "LayerTimes",
    "LearnersRow",
    "Loading",
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
    "Shapes",
    "SplitWays",
    "StorageInput",
    "Tensors",
    "TorchSource",
    "TransformerEfficiency",
    "UtilisationPoint",
    "WorkloadConfig",
    "averaging",
    "best_learners",
    "between",
    "build_model",
    "canonical_name",
    "check_factory",
    "collect_outputs",
    "compute_times",
    "constants",
    "extrapolated_from",
    "find_factory",
    "fitted",
    "footprint",
    "gpus_to_shard_over",
    "has_own_law",
    "hooked",
    "import_torch",
    "is_common",
    "is_throttled",
    "is_winograd",
    "kept_by_block",
    "largest_batch",
    "learners_table",
    "load_model_profile",
    "longest_sequence",
    "measured_time",
    "offloaded_bytes",
    "precision_named",
    "read_file",
    "remedies",
    "shared_times",
    "split_ways",
    "standing_for",
    "state_bytes",
    "stretch",
    "trace",
    "trace_call",
    "trace_module",
    "transformer_efficiency",
    "update_bytes",
]
