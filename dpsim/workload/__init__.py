"""What a training step computes: layers of known models, and the seconds they take on a GPU."""

from dpsim.workload.builder import Builder
from dpsim.workload.config import MemoryInput, WorkloadConfig
from dpsim.workload.efficiency import FITTED, Efficiency
from dpsim.workload.layer import KINDS, Kind, Layer, Model, Tensors
from dpsim.workload.models import MODELS, build_model, canonical_name
from dpsim.workload.roofline import (
    OPTIMIZERS,
    PRECISIONS,
    WIDTH,
    Accelerator,
    LayerTimes,
    Optimizer,
    Precision,
    compute_times,
)

__all__ = [
    "FITTED",
    "KINDS",
    "MODELS",
    "OPTIMIZERS",
    "PRECISIONS",
    "WIDTH",
    "Accelerator",
    "Builder",
    "Efficiency",
    "Kind",
    "Layer",
    "LayerTimes",
    "MemoryInput",
    "Model",
    "Optimizer",
    "Precision",
    "Tensors",
    "WorkloadConfig",
    "build_model",
    "canonical_name",
    "compute_times",
]
