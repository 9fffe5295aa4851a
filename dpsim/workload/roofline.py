"""How long each layer computes.

The larger of its arithmetic and its memory traffic, on a GPU that a host keeps busy.

On the GPU a layer's pass over a batch takes

    max((FLOP / (peak x fraction) + ramp), bytes / (memory bandwidth x fraction)),

a recurrent layer's ramp once for each of its steps. The host launches kernels one after the other,
each ``launch`` seconds after the one before, and does not wait for them: a kernel starts when it
has been launched and the one before has ended, so a step takes about the longer of launching and
computing, never their sum. The ends of all kernels are

    end[i] = max over j <= i of (launched[j] + device[j] + ... + device[i]).

A measured table of layer times replaces all of this. The constants, how they were obtained and how
far they are off stand in `dpsim.workload.efficiency`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.workload.efficiency import (
    WITHOUT_TENSOR_CORES,
    Efficiency,
    Execution,
    Kernels,
    constants,
    fitted,
    is_recurrent,
)
from dpsim.workload.layer import Model

if TYPE_CHECKING:
    from dpsim.workload.recompute import Recomputation, Recompute
    from dpsim.workload.transformer_times import TransformerEfficiency

Precision = Literal["fp32", "tf32", "fp16", "bf16", "fp8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
Optimizer = Literal["sgd", "momentum", "adam", "adamw", "adagrad", "lars", "lamb"]
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)

# Values of fp32 that an optimiser keeps for each parameter: nothing, the momentum (LARS too), the
# sum of squares (Adagrad), two moments. Decoupled weight decay moves what weight decay does.
OPTIMIZER_STATES: Mapping[Optimizer, int] = {
    "sgd": 0,
    "momentum": 1,
    "adam": 2,
    "adamw": 2,
    "adagrad": 1,
    "lars": 1,
    "lamb": 2,
}

# Values for each parameter that norms of whole tensors add to an update. LARS reads weight and
# gradient for them (You et al. 2017, arXiv:1708.03888). LAMB writes the step that Adam would take,
# reads it and the weight for the norms, and reads both again to apply it, where Adam has applied it
# at once: five more (You et al. 2020, arXiv:1904.00962, algorithm 2).
_NORM_VALUES: Mapping[Optimizer, int] = {"lars": 2, "lamb": 5}

# Bytes of an activation, and of a weight as the matrix products read it. With fp8 what is kept
# stays in bf16.
WIDTH: Mapping[Precision, int] = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 2}

_THROTTLED = 75.0  # W: boards without a power plug of their own do not keep their clock


def is_throttled(power: float | None) -> bool:
    """Whether a board of so many watts (None: unknown) slows its clock under long load."""
    return power is not None and power <= _THROTTLED


def update_bytes(optimizer: Optimizer) -> int:
    """Bytes per parameter that an update reads and writes.

    The weight and each state are read and written, the gradient is read, all in fp32, and norms
    take more. In mixed precision the gradient is read at half the width and a half-width copy of
    the weight is written: the same sum.
    """
    return 4 * (3 + 2 * OPTIMIZER_STATES[optimizer] + _NORM_VALUES.get(optimizer, 0))


@dataclass(frozen=True, slots=True)
class Accelerator:
    """What the roofline asks of a GPU.

    Dense peak FLOP/s of each precision it has, and memory bandwidth in bytes/s.

    ``generation`` (kepler ... hopper) chooses its constants; ``power`` is its limit in W, None if
    unknown.
    """

    name: str
    peak_flop_per_s: Mapping[str, float]
    memory_bandwidth: float
    generation: str = "other"
    power: float | None = None

    def peak(self, precision: str) -> float:
        """FLOP/s in that precision; raises DpsimError, with what the GPU has, where it has none."""
        try:
            peak = self.peak_flop_per_s[precision]
        except KeyError:
            known = ", ".join(self.peak_flop_per_s)
            raise DpsimError(
                f"must be a precision that the {self.name} has ({known}), but got {precision!r}"
            ) from None
        if self.generation in WITHOUT_TENSOR_CORES:
            return min(peak, self.peak_flop_per_s.get("fp32", peak))
        return peak


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """Seconds of a training step on one GPU.

    For each pass a vector over layers, in forward order, and the optimiser's step.

    A step has ``passes`` of them, one a micro-batch. The last pass takes ``merging`` s more in each
    layer's backward pass, where learners that share the GPU add up what they have, or gradients
    are reduced. ``wire_traffic`` is the bytes that the GPU's memory moves at ``memory_rate`` (B/s)
    for each byte of a payload that is communicated beside a pass, ``copy_traffic`` for each that a
    strategy copies.
    """

    forward: FloatArray
    backward: FloatArray
    optimizer: float
    passes: int = 1
    merging: FloatArray | float = 0.0
    wire_traffic: float = 0.0
    copy_traffic: float = 0.0
    memory_rate: float = math.inf

    @property
    def one_pass(self) -> float:
        """Seconds of a forward and a backward pass."""
        return float(self.forward.sum() + self.backward.sum())

    @property
    def step(self) -> float:
        """Seconds of all of it."""
        last = float(self.forward.sum() + (self.backward + self.merging).sum())
        return (self.passes - 1) * self.one_pass + last + self.optimizer

    def scaled(self, factor: float) -> LayerTimes:
        """All of it multiplied by ``factor``."""
        # Passes are longer already by what communication moves through the memory: the traffic that
        # says so has done its work, and is left out.
        return LayerTimes(
            self.forward * factor,
            self.backward * factor,
            self.optimizer * factor,
            self.passes,
            self.merging * factor,
        )


def compute_times(
    model: Model,
    accelerator: Accelerator,
    *,
    batch: int,
    precision: Precision = "fp32",
    optimizer: Optimizer = "momentum",
    execution: Execution = "eager",
    kernels: Kernels = "2024",
    accumulation: int = 1,
    recompute: Recompute | None = None,
    efficiency: Efficiency | None = None,
    transformer: TransformerEfficiency | None = None,
    learners: int = 1,
    updated: float = 1.0,
) -> LayerTimes:
    """Predicts how long ``model`` computes in a step.

    The step is ``accumulation`` passes over ``batch`` samples each. ``recompute`` is what backward
    computes again (None: nothing, everything is kept). ``kernels`` is the year of the framework's,
    for transformers. ``efficiency`` replaces the fitted constants, ``transformer`` those of
    transformers. ``learners`` update their weights on the GPU at once; passes are those of one.
    ``updated`` is the part of the model that is updated here. Raises DpsimError for a batch or
    precision that cannot be.
    """
    for name, number in (("batch", batch), ("accumulation", accumulation)):
        if number < 1:
            raise DpsimError(f"{name} must be at least 1, but got {number}")
    accelerator.peak(precision)  # raises, whatever was measured, where the GPU has none
    constants = efficiency or fitted(accelerator.generation, execution)
    if transformer is None and efficiency is None:
        law = _transformer_law(model, precision)
        transformer = law and law(accelerator.generation, execution, kernels)
    recomputed = None if recompute is None else recompute.of(model)
    forward, backward = _pass_times(
        model, accelerator, batch, precision, constants, transformer, recomputed
    )
    update = _update(model, optimizer, accelerator, constants, learners, updated)
    times = LayerTimes(forward, backward, update, accumulation)
    if transformer is None:
        return times
    return replace(
        times,
        wire_traffic=transformer.wire,
        copy_traffic=transformer.copies,
        memory_rate=transformer.memory * accelerator.memory_bandwidth,
    )


def _pass_times(
    model: Model,
    accelerator: Accelerator,
    batch: int,
    precision: Precision,
    constants: Efficiency,
    transformer: TransformerEfficiency | None,
    recomputed: Recomputation | None,
) -> tuple[FloatArray, FloatArray]:
    """Seconds of each layer in a forward and a backward pass.

    Measured layers count before any model of them, and the constants of transformers, which know
    the shapes of their products, before those of all models.
    """
    if model.measured is not None:
        forward, backward = model.measured.forward(batch), model.measured.backward(batch)
        # What was measured kept everything: computing again comes on top.
        return forward, backward + _again(forward, recomputed)
    if transformer is not None:
        work = _Passes(*transformer.pass_times(model, accelerator, batch, precision))
        return work.queued(transformer.launch, recomputed)
    work = _Passes.of(model, accelerator, batch, precision, constants)
    return work.queued(constants.launch, recomputed)


def _transformer_law(
    model: Model, precision: Precision
) -> Callable[[str, Execution, Kernels], TransformerEfficiency | None] | None:
    """How to find the constants for a transformer with fused attention, which states its shapes.

    None for other models, and for full precision.
    """
    if WIDTH[precision] != 2 or not any(layer.head for layer in model.layers):
        return None
    from dpsim.workload.transformer_times import transformer_efficiency

    return transformer_efficiency


def has_own_law(model: Model, precision: Precision) -> bool:
    """Whether a model's times come from the constants of transformers, not of all models."""
    return _transformer_law(model, precision) is not None


def is_common(model: Model) -> bool:
    """Whether a model is made of convolutions or of attention, and nothing waits for each token.

    Recommenders and recurrences leave their GPU waiting for the host, and depend on the script.
    """
    kinds = {layer.kind for layer in model.layers if layer.forward_flop}
    return bool(kinds & {"conv", "attention"}) and not any(map(is_recurrent, model.layers))


def extrapolated_from(
    model: Model, generation: str, precision: Precision, execution: Execution, kernels: Kernels
) -> str | None:
    """Whose efficiency stands for a generation of GPUs that was not measured.

    None where it was, or where the layers' times were.
    """
    if model.measured is not None:
        return None
    law = _transformer_law(model, precision)
    transformer = law and law(generation, execution, kernels)
    if transformer:
        return None if transformer.measured_on == generation else transformer.measured_on
    # The constants know the generations whose rows they were fitted on.
    return None if generation in constants()["generations"] else "the mean of all generations"


def _speeds(
    model: Model, accelerator: Accelerator, precision: Precision, constants: Efficiency
) -> FloatArray:
    """FLOP/s that large products of each layer reach."""
    slowed = constants.throttle if is_throttled(accelerator.power) else 1.0
    fp32 = precision == "tf32" and "fp32" in accelerator.peak_flop_per_s
    used: list[Precision] = [
        "fp32" if fp32 and is_recurrent(layer) else precision for layer in model.layers
    ]
    reached = [
        constants.large(layer, one) * accelerator.peak(one)
        for layer, one in zip(model.layers, used, strict=True)
    ]
    return slowed * np.array(reached)


def _update(
    model: Model,
    optimizer: Optimizer,
    accelerator: Accelerator,
    constants: Efficiency,
    learners: int,
    updated: float,
) -> float:
    """Seconds of the update: as measured, or its traffic or launches, whichever takes longer.

    Learners share the memory, so their traffic adds up. Each has a host thread of its own, so
    launches pass at the same time.
    """
    measured = None if model.measured is None else model.measured.optimizer()
    if measured is not None:
        return updated * measured * learners
    bandwidth = accelerator.memory_bandwidth * constants.memory
    traffic = learners * update_bytes(optimizer) * model.parameters / bandwidth
    launches = constants.update_launches * len(model.tensors.elements) * constants.launch
    # The loss is read and the next batch handed over, whoever updates the weights.
    return updated * max(traffic, launches) + constants.step


def _again(forward: FloatArray, recomputed: Recomputation | None) -> FloatArray:
    """What backward computes again, at the layer where it first needs it."""
    return np.zeros_like(forward) if recomputed is None else recomputed.seconds(forward)


@dataclass(frozen=True, slots=True)
class _Passes:
    """Seconds on the GPU and kernels of each layer for a batch, without any waiting."""

    forward: FloatArray
    backward: FloatArray
    forward_kernels: FloatArray
    backward_kernels: FloatArray

    @classmethod
    def of(
        cls,
        model: Model,
        accelerator: Accelerator,
        batch: int,
        precision: Precision,
        constants: Efficiency,
    ) -> _Passes:
        """Those of ``model`` by the roofline."""
        speed = _speeds(model, accelerator, precision, constants)
        bandwidth = accelerator.memory_bandwidth * constants.memory
        own, steps = model.vector("own_weights"), model.vector("steps")
        used = own + model.vector("borrowed")
        table = np.array([layer.kind == "embedding" for layer in model.layers])
        flop, backward = model.vector("forward_flop"), model.vector("backward_flop")
        traffic = model.vector("backward_traffic")
        # A product's backward is a kernel by the weights and, but in the first layer, one by the
        # input, which reads the weights.
        gradients = np.where(flop > 0, backward / np.maximum(flop, 1), traffic > 0)
        # A table is read row by row, as traffic; its gradient is written whole, mostly zeros.
        read, written = np.where(table, 0, used), np.where(table, own, used)
        width = constants.half_width if WIDTH[precision] == 2 else WIDTH[precision]
        # Elements a second. Compilers fuse what stands between products, so that less of it passes
        # through memory; what products read and write stays.
        rate = bandwidth / (width * np.where(flop > 0, 1.0, constants.fusion))
        moved = (model.vector("forward_traffic") * batch + read) / rate
        moved_back = (traffic * batch + read * (gradients > 1) + written) / rate
        ramp, usual = constants.ramp * steps * (flop > 0), constants.usual
        return cls(
            forward=usual * np.maximum(flop * batch / speed + ramp, moved),
            backward=usual * np.maximum(backward * batch / speed + gradients * ramp, moved_back),
            forward_kernels=steps,
            backward_kernels=gradients * steps,
        )

    def queued(
        self, launch: float, recomputed: Recomputation | None
    ) -> tuple[FloatArray, FloatArray]:
        """Seconds from the end of each kernel's predecessor to its own.

        Forward and backward, both in forward order.
        """
        # In the order in which kernels run: forward, then backward from the last layer on.
        device = np.concatenate(
            [self.forward, (self.backward + _again(self.forward, recomputed))[::-1]]
        )
        kernels = np.concatenate(
            [
                self.forward_kernels,
                (self.backward_kernels + _again(self.forward_kernels, recomputed))[::-1],
            ]
        )
        before = np.cumsum(device) - device
        # The formula of the module's docstring: launched[j] - before[j] is how long the GPU would
        # have stood idle by kernel j, and the running maximum is how long it has.
        ends = before + device + np.maximum.accumulate(launch * np.cumsum(kernels) - before)
        spans = np.diff(ends, prepend=0.0)
        layers = len(self.forward)
        return spans[:layers], spans[layers:][::-1]
