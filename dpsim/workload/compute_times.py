"""The compute times of each layer in a step, on a GPU driven by a host.

`dpsim.workload.compute_law` gives the time of a layer on the GPU. The host launches kernels one
after the other, each ``launch`` seconds after the previous one, and does not wait for them: a
kernel starts when it has been launched and the previous one has ended, so a step takes about the
longer of launching and computing, never their sum. The ends of all kernels are

    end[i] = max over j <= i of (launched[j] + device[j] + ... + device[i]).

A measured table of layer times replaces all of this.
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
# Bytes of an activation, and of a weight as the matrix products read it. With fp8 and
# nvfp4 the kept activations stay in bf16.
WIDTH: Mapping[Precision, int] = {
    "fp32": 4,
    "tf32": 4,
    "fp16": 2,
    "bf16": 2,
    "fp8": 2,
    "nvfp4": 2,
}

# Seconds of the host per searched node of the autograd graph: 0.27 to 0.39 us with torch 2.13 on
# one core of a server, from the extra time of DDP's forward pass of 300 and of 1,000 small layers
# with find_unused_parameters. Assumed for all hosts.
_SEARCH = 3e-7

_THROTTLED = 75.0  # W: boards without a power plug throttle


def is_throttled(power: float | None) -> bool:
    """Return whether a board of that power (None: unknown) throttles under sustained load."""
    return power is not None and power <= _THROTTLED


@dataclass(frozen=True, slots=True)
class Accelerator:
    """The properties of a GPU that its compute times depend on.

    Dense peak FLOP/s of each supported precision, and memory bandwidth in bytes/s.

    ``generation`` (kepler ... hopper) selects its constants; ``power`` is its limit in W, None if
    unknown.
    """

    name: str
    peak_flop_per_s: Mapping[str, float]
    memory_bandwidth: float
    generation: str = "other"
    power: float | None = None

    @property
    def matrix_units(self) -> bool:
        """Whether half precision has separate units."""
        return self.generation not in WITHOUT_TENSOR_CORES

    def peak(self, precision: str) -> float:
        """Return the FLOP/s in that precision. Raises DpsimError if the GPU has none."""
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
        """Return its properties in a precision, at its sustained clock. Raises as `peak`."""
        kept = self.clock(constants)
        # For narrower precisions the constant is a factor on bf16's speed.
        nominal = self.peak(self._half(precision) if precision in NARROW else precision)
        # Recurrences run in fp32 where tf32 is requested.
        in_fp32 = precision == "tf32" and "fp32" in self.peak_flop_per_s
        plain = self.peak("fp32") if in_fp32 else nominal
        on_units = self.matrix_units and precision != "fp32"
        return Machine(
            nominal * kept,
            plain * kept,
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
        kept = constants.throttle if is_throttled(self.power) else 1.0
        half = self._half("bf16")
        if self.power is None or half not in self.peak_flop_per_s or not constants.clock_power:
            return kept
        watts = self.power / self.peak_flop_per_s[half]
        return float(kept * min(1.0, watts / constants.watts) ** constants.clock_power)

    def _half(self, precision: str) -> str:
        return "bf16" if precision != "fp16" and "bf16" in self.peak_flop_per_s else "fp16"


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """Seconds of a training step on one GPU.

    A vector over layers for each pass, in forward order, and the optimiser's step.

    A step has ``passes`` of them, one per micro-batch. The last pass takes ``merging`` s more in
    each layer's backward pass, where learners that share the GPU average their gradients, or
    gradients are reduced. ``wire_traffic`` is the bytes that the GPU's memory moves at
    ``memory_rate`` (B/s) for each byte of a payload communicated during a pass, ``copy_traffic``
    for each byte that a strategy copies.
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
        # The times of passes already include the memory traffic of communication, so that traffic
        # is left out here.
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
    checkpointing (None: everything is kept). ``constants`` replace the fitted ones. ``learners``
    update their weights on the GPU at once; passes are of a single one. ``updated`` is the part of
    the model that is updated here. ``beside`` is seconds that the host adds to each step.
    ``searched`` is the number of autograd nodes that the host searches between a forward and its
    backward pass, in ``each_pass`` or only in the last. Raises DpsimError for an invalid batch or
    precision.
    """
    for name, number in (("batch", batch), ("accumulation", accumulation)):
        if number < 1:
            raise DpsimError(f"{name} must be at least 1, but got {number}")
    accelerator.peak(precision)  # raises where the GPU lacks it, even with measured times
    software = software or Software()
    known = constants or constants_for(model, accelerator.generation, precision, software)
    recomputed = None if recompute is None else recompute.of(model)
    if model.measured is not None:
        forward, backward = model.measured.forward(batch), model.measured.backward(batch)
        # Measurements kept all activations: recomputation comes on top.
        backward = backward + _again(forward, recomputed)
    else:
        machine = accelerator.machine(precision, software, known)
        unqueued = model.kept(LayerWork.of).pass_times(known, machine, batch)
        forward, backward = _queued(unqueued, known.launch, recomputed)
        later = backward
        if searched:
            _, later = _queued(unqueued, known.launch, recomputed, searched * _SEARCH)
        if each_pass:
            backward = later
    update = _update(model, optimizer, accelerator, known, learners, updated)
    times = LayerTimes(forward, backward, update + beside, accumulation)
    if model.measured is not None:
        return times
    return replace(
        times,
        merging=later - backward,
        wire_traffic=known.wire,
        copy_traffic=known.copies,
        memory_rate=known.memory * accelerator.memory_bandwidth,
    )


def is_common(model: Model) -> bool:
    """Return whether a model consists of convolutions or attention, and has no recurrences.

    In recommenders and recurrent models the GPU waits for the host, and times depend on the script.
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

    Learners share the memory, so their traffic adds up. Each has its own host thread, so launches
    run in parallel.
    """
    measured = None if model.measured is None else model.measured.optimizer()
    if measured is not None:
        return updated * measured * learners
    bandwidth = accelerator.memory_bandwidth * constants.memory
    moved = update_bytes(optimizer, model.parameter_bytes) * model.trained
    traffic = learners * moved / bandwidth
    kernels = constants.update_kernels * update_rounds(optimizer) * len(model.tensors.elements)
    launches = kernels * constants.launch
    # The loss is read and the next batch handed over, whoever updates the weights.
    return updated * max(traffic, launches) + constants.step


def _again(forward: FloatArray, recomputed: Recomputation | None) -> FloatArray:
    """Return the recomputed share of ``forward``, at the layer where backward first needs it."""
    return np.zeros_like(forward) if recomputed is None else recomputed.seconds(forward)


def _queued(
    unqueued: PassTimes, launch: float, recomputed: Recomputation | None, turn: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return the seconds from the end of each kernel's predecessor to its own end.

    Returns forward and backward, both in forward order. ``turn`` is the host's time between them.
    """
    # In the order in which kernels run: forward, then backward from the last layer on.
    device = np.concatenate(
        [unqueued.forward, (unqueued.backward + _again(unqueued.forward, recomputed))[::-1]]
    )
    kernels = np.concatenate(
        [
            unqueued.forward_kernels,
            (unqueued.backward_kernels + _again(unqueued.forward_kernels, recomputed))[::-1],
        ]
    )
    before = np.cumsum(device) - device
    layers = len(unqueued.forward)
    launched = launch * np.cumsum(kernels)
    launched[layers:] += turn
    # The formula of the module's docstring: launched[j] - before[j] is the idle time that kernel j
    # requires up to its start, and the running maximum is the actual idle time.
    ends = before + device + np.maximum.accumulate(launched - before)
    spans = np.diff(ends, prepend=0.0)
    return spans[:layers], spans[layers:][::-1]
