"""The compute times of each layer in a step, on a GPU driven by a host.

`dpsim.workload.compute_law` gives the time of a layer on the GPU. The host launches a kernel every
``launch`` seconds and does not wait for it. A kernel starts when it has been launched and the
previous one has ended, so a step takes about the longer of launching and computing. Kernels end at

    end[i] = max over j <= i of (launched[j] + device[j] + ... + device[i]).

Measured layer times replace all of this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.workload.compute_constants import (
    NARROW,
    WITHOUT_TENSOR_CORES,
    Constants,
    constants_for,
    precision_family,
)
from dpsim.workload.compute_law import LayerWork, Machine, PassTimes, is_recurrent
from dpsim.workload.layer import Model
from dpsim.workload.optimizers import Optimizer, update_bytes, update_rounds
from dpsim.workload.recompute import Recomputation, Recompute
from dpsim.workload.software import Software

Precision = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "nvfp4"]
# Bytes of an activation, and of a weight as products read it. With fp8 and nvfp4, kept activations
# are bf16.
WIDTH: Mapping[Precision, int] = {
    "fp32": 4,
    "tf32": 4,
    "fp16": 2,
    "bf16": 2,
    "fp8": 2,
    "nvfp4": 2,
}

# Host seconds per node of the autograd graph that DDP searches with find_unused_parameters: 0.27 to
# 0.39 us with torch 2.13 on one core of a server, for 300 and for 1,000 small layers. Assumed for
# all hosts.
_SEARCH_SECONDS = 3e-7

_THROTTLED = 75.0  # W: boards without a power plug throttle


def is_throttled(power: float | None) -> bool:
    """Return whether a board of that ``power`` throttles under sustained load; not if unknown."""
    return power is not None and power <= _THROTTLED


@dataclass(frozen=True, slots=True)
class Accelerator:
    """The properties of a GPU that its compute times depend on.

    Dense peak FLOP/s of each supported precision, and memory bandwidth in B/s. ``generation``
    (kepler ... hopper) selects its constants; ``power`` is its limit in W, if known.
    """

    name: str
    peak_flop_per_s: Mapping[str, float]
    memory_bandwidth: float
    generation: str = "other"
    power: float | None = None

    @property
    def matrix_units(self) -> bool:
        """Whether half precision has units of its own (tensor cores)."""
        return self.generation not in WITHOUT_TENSOR_CORES

    def peak(self, precision: str) -> float:
        """Return the peak FLOP/s in a precision. Raises DpsimError if the GPU lacks it."""
        try:
            peak = self.peak_flop_per_s[precision]
        except KeyError:
            known = ", ".join(self.peak_flop_per_s)
            raise DpsimError(
                f"workload.precision: must be a precision that the {self.name} has ({known}), "
                f"but got {precision!r}"
            ) from None
        if not self.matrix_units:
            return min(peak, self.peak_flop_per_s.get("fp32", peak))
        return peak

    def machine(self, precision: Precision, software: Software, constants: Constants) -> Machine:
        """Return its properties in a precision, at its sustained clock. Raises like `peak`."""
        clock = self.clock(constants)
        # For narrower precisions the constant is a factor on bf16's speed.
        nominal = self.peak(self._half(precision) if precision in NARROW else precision)
        # See `is_recurrent`.
        in_fp32 = precision == "tf32" and "fp32" in self.peak_flop_per_s
        plain = self.peak("fp32") if in_fp32 else nominal
        on_units = self.matrix_units and precision != "fp32"
        return Machine(
            nominal * clock,
            plain * clock,
            self.memory_bandwidth,
            float(WIDTH[precision]),
            on_units,
            on_units and software.memory_format == "channels_first",
            precision == "fp32",
            precision in NARROW,
            precision == "nvfp4",
            self.peak(precision) / nominal if precision in NARROW else 1.0,
        )

    def clock(self, constants: Constants) -> float:
        """Return the share of its clock that the board sustains."""
        share = constants.throttle if is_throttled(self.power) else 1.0
        half = self._half("bf16")
        if self.power is None or half not in self.peak_flop_per_s or not constants.clock_power:
            return share
        watts = self.power / self.peak_flop_per_s[half]
        return float(share * min(1.0, watts / constants.watts) ** constants.clock_power)

    def _half(self, precision: str) -> str:
        return "bf16" if precision != "fp16" and "bf16" in self.peak_flop_per_s else "fp16"


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """Seconds of a training step on one GPU: each layer's passes, and the optimiser's step.

    ``forward`` and ``backward`` are vectors over layers, in forward order. A step has ``passes``
    passes, one per micro-batch. In the last, each layer's backward takes ``merging`` s more, to
    average the gradients of learners that share the GPU, or for DDP's search of the graph. The
    GPU's memory moves ``wire_traffic`` bytes at ``memory_rate`` (B/s) for each payload byte
    communicated during a pass, and ``copy_traffic`` for each byte that a strategy copies.
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
        """Seconds of the whole step."""
        last = float(self.forward.sum() + (self.backward + self.merging).sum())
        return (self.passes - 1) * self.one_pass + last + self.optimizer

    def scaled(self, factor: float) -> LayerTimes:
        """Return the times multiplied by ``factor``."""
        # Without the memory traffic of communication, which the times already include.
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
    software: Software | None = None,
    accumulation: int = 1,
    recompute: Recompute | None = None,
    constants: Constants | None = None,
    learners: int = 1,
    updated: float = 1.0,
    beside: float = 0.0,
    searched: float = 0.0,
    each_pass: bool = True,
) -> LayerTimes:
    """Predict the compute times of ``model`` in a step.

    The step is ``accumulation`` passes over ``batch`` samples each. ``recompute`` is the activation
    checkpointing, None to keep everything. ``constants`` replace the fitted ones. The update is of
    ``learners`` learners, the passes of one. ``updated`` is the share of the model that this GPU
    updates. ``beside`` are seconds that the host adds to each step. ``searched`` is the number of
    autograd nodes that the host searches before a backward pass, in ``each_pass`` or only in the
    last. Raises DpsimError for an invalid batch or precision.
    """
    for name, number in (("batch", batch), ("accumulation", accumulation)):
        if number < 1:
            raise DpsimError(f"{name} must be at least 1, but got {number}")
    accelerator.peak(precision)  # raises if the GPU lacks it, even with measured times
    software = software or Software()
    known = constants or constants_for(model, accelerator.generation, precision, software)
    recomputed = None if recompute is None else recompute.of(model)
    if model.measured is not None:
        forward, backward = model.measured.forward(batch), model.measured.backward(batch)
        # Measurements did not recompute any activations.
        backward = backward + _recomputed(forward, recomputed)
    else:
        machine = accelerator.machine(precision, software, known)
        unqueued = model.cached(LayerWork.of).pass_times(known, machine, batch)
        forward, backward = _queued(unqueued, known.launch, recomputed)
        searching = backward
        if searched:
            _, searching = _queued(unqueued, known.launch, recomputed, searched * _SEARCH_SECONDS)
        if each_pass:
            backward = searching
    update = _update(model, optimizer, accelerator, known, learners, updated)
    times = LayerTimes(forward, backward, update + beside, accumulation)
    if model.measured is not None:
        return times
    return replace(
        times,
        merging=searching - backward,
        wire_traffic=known.wire,
        copy_traffic=known.copies,
        memory_rate=known.memory * accelerator.memory_bandwidth,
    )


def is_gpu_bound(model: Model) -> bool:
    """Return whether a model has convolutions or attention, and no recurrences.

    With recommenders and recurrent models the GPU waits for the host, and times depend on the
    script.
    """
    kinds = {layer.kind for layer in model.layers if layer.forward_flop}
    return bool(kinds & {"conv", "attention"}) and not any(map(is_recurrent, model.layers))


def is_language_model(model: Model, precision: Precision) -> bool:
    """Return whether a model has fused attention and half precision, like large language models."""
    return precision_family(precision) == "half" and any(layer.head for layer in model.layers)


def _update(
    model: Model,
    optimizer: Optimizer,
    accelerator: Accelerator,
    constants: Constants,
    learners: int,
    updated: float,
) -> float:
    """Return the seconds of the update: measured, or the longer of its traffic and its launches.

    The traffic of learners adds up, because they share the memory. Their host threads launch
    kernels in parallel.
    """
    measured = None if model.measured is None else model.measured.optimizer()
    if measured is not None:
        return updated * measured * learners
    bandwidth = accelerator.memory_bandwidth * constants.memory
    moved = update_bytes(optimizer, model.parameter_bytes) * model.trained
    traffic = learners * moved / bandwidth
    kernels = constants.update_kernels * update_rounds(optimizer) * len(model.tensors.elements)
    launches = kernels * constants.launch
    # Every GPU reads the loss and gets the next batch, even if it updates nothing.
    return updated * max(traffic, launches) + constants.step


def _recomputed(forward: FloatArray, recomputed: Recomputation | None) -> FloatArray:
    """Return the recomputed part of ``forward``, at the layers whose backward first needs it."""
    return np.zeros_like(forward) if recomputed is None else recomputed.seconds(forward)


def _queued(
    unqueued: PassTimes, launch: float, recomputed: Recomputation | None, turn: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return each layer's seconds from its predecessor's end to its own: forward and backward.

    Both in forward order. ``turn``: the host's seconds between the two.
    """
    # In execution order: forward, then backward from the last layer on.
    device = np.concatenate(
        [unqueued.forward, (unqueued.backward + _recomputed(unqueued.forward, recomputed))[::-1]]
    )
    kernels = np.concatenate(
        [
            unqueued.forward_kernels,
            (unqueued.backward_kernels + _recomputed(unqueued.forward_kernels, recomputed))[::-1],
        ]
    )
    before = np.cumsum(device) - device
    layers = len(unqueued.forward)
    launched = launch * np.cumsum(kernels)
    launched[layers:] += turn
    # The module's formula: launched[j] - before[j] is the idle time that kernel j's launch
    # requires, and the running maximum is the actual idle time.
    ends = before + device + np.maximum.accumulate(launched - before)
    spans = np.diff(ends, prepend=0.0)
    return spans[:layers], spans[layers:][::-1]
