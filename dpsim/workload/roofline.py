"""How long each layer computes: the larger of its arithmetic and its memory traffic, plus the launch of its kernels.

A layer's pass over a batch takes

    max(FLOP / (peak x efficiency), bytes / (memory bandwidth x fraction)) + launches x launch overhead,

where the efficiency of a matrix product is ``large x w / (w + half)`` for a work of w FLOP: small products do not fill the GPU.
``half`` is what the GPU does at peak in a fixed time, the ramp: the faster it is, the larger the products it wants.
The constants, how they were obtained and how far they are off stand in `dpsim.workload.efficiency`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dpsim.errors import DpsimError
from dpsim.workload.efficiency import FITTED, Efficiency
from dpsim.workload.layer import Model

Precision = Literal["fp32", "tf32", "fp16", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
Optimizer = Literal["sgd", "momentum", "adam"]
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)

# Bytes of an activation, and of a weight as the matrix products read it.
WIDTH: Mapping[Precision, int] = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}

# Bytes per parameter that an update reads and writes: weight read and written, gradient read, each state read and written, all
# fp32. In mixed precision the gradient is read at half the width and a half-width copy of the weight is written: the same sum.
UPDATE_BYTES: Mapping[Optimizer, int] = {"sgd": 12, "momentum": 20, "adam": 28}


@dataclass(frozen=True, slots=True)
class Accelerator:
    """What the roofline asks of a GPU: dense peak FLOP/s of each precision it has, and memory bandwidth in bytes/s."""

    name: str
    peak_flop_per_s: Mapping[str, float]
    memory_bandwidth: float

    def peak(self, precision: str) -> float:
        """FLOP/s in that precision; raises DpsimError, with what the GPU has, where it has none."""
        try:
            return self.peak_flop_per_s[precision]
        except KeyError:
            known = ", ".join(self.peak_flop_per_s)
            raise DpsimError(f"must be a precision that the {self.name} has ({known}), but got {precision!r}") from None


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """Seconds of a training step on one GPU: for each pass a vector over layers, in forward order, and the optimiser's step."""

    forward: NDArray[np.float64]
    backward: NDArray[np.float64]
    optimizer: float

    @property
    def step(self) -> float:
        """Seconds of all of it."""
        return float(self.forward.sum() + self.backward.sum()) + self.optimizer


def compute_times(
    model: Model,
    accelerator: Accelerator,
    *,
    batch: int,
    precision: Precision = "fp32",
    optimizer: Optimizer = "momentum",
    efficiency: Efficiency = FITTED,
) -> LayerTimes:
    """Predicts how long ``model`` computes on ``batch`` samples; raises DpsimError for a batch or precision that cannot be."""
    if batch < 1:
        raise DpsimError(f"batch must be at least 1, but got {batch}")
    peak = accelerator.peak(precision)
    bandwidth = accelerator.memory_bandwidth * efficiency.memory
    speed = _achieved(model, batch, peak, precision, efficiency)
    work = _Passes.of(model, batch, WIDTH[precision])
    return LayerTimes(
        forward=np.maximum(work.forward_flop / speed, work.forward_bytes / bandwidth) + efficiency.launch,
        backward=np.maximum(work.backward_flop / speed, work.backward_bytes / bandwidth) + work.gradients * efficiency.launch,
        optimizer=UPDATE_BYTES[optimizer] * model.parameters / bandwidth + efficiency.launch,
    )


@dataclass(frozen=True, slots=True)
class _Passes:
    """FLOP and bytes of each layer for a batch; ``gradients`` is how many kernels its backward takes (0, 1 or 2)."""

    forward_flop: NDArray[np.float64]
    backward_flop: NDArray[np.float64]
    forward_bytes: NDArray[np.float64]
    backward_bytes: NDArray[np.float64]
    gradients: NDArray[np.float64]

    @classmethod
    def of(cls, model: Model, batch: int, width: int) -> _Passes:
        own, used = model.vector("own_weights"), model.vector("own_weights") + model.vector("borrowed")
        table = np.array([layer.kind == "embedding" for layer in model.layers])
        flop, backward = model.vector("forward_flop"), model.vector("backward_flop")
        traffic = model.vector("backward_traffic")
        # A product's backward is a kernel by the weights and, but in the first layer, one by the input, which reads the weights.
        gradients = np.where(flop > 0, backward / np.maximum(flop, 1), traffic > 0)
        # A table is read row by row, as traffic; its gradient is written whole, mostly zeros.
        read = np.where(table, 0, used)
        written = np.where(table, own, used)
        return cls(
            forward_flop=flop * batch,
            backward_flop=backward * batch,
            forward_bytes=width * (model.vector("forward_traffic") * batch + read),
            backward_bytes=width * (traffic * batch + read * (gradients > 1) + written),
            gradients=gradients,
        )


def _achieved(model: Model, batch: int, peak: float, precision: Precision, efficiency: Efficiency) -> NDArray[np.float64]:
    """FLOP/s that each layer reaches; a gradient is a product as large as the forward one, so both passes reach the same."""
    large = np.array([efficiency.large(layer.kind, precision) for layer in model.layers])
    work = np.maximum(model.vector("forward_flop") * batch, 1)
    return peak * large * work / (work + peak * efficiency.ramp)
