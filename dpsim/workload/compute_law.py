"""The compute times of a model's layers on a GPU, from their work and fitted constants.

A kernel computes while it moves data. With compute = FLOP / speed and memory = bytes / rate it
takes

    sqrt(compute^2 + memory^2) + ramp x kernels,

a smooth maximum plus the time to fill the GPU. Speed is a share of peak that depends on the kind of
layer: convolution, product, recurrence, fused attention. On matrix units a product of m rows, k
inner terms and n columns takes as long as one of k + ``inner_ramp`` terms, because a kernel fills
its pipeline and writes its tile once, however long the inner dimension is. The gradient by the
input has n inner terms, the gradient by the weights m: efficiency grows with a model's width and
with the samples of a pass. Fused attention with heads of width d takes FLOP (1 + head_ramp / d),
because its exponentials do not shrink with d.

Bytes are the sizes of the tensors that a layer reads and writes, at the width of the precision.
``elementwise`` multiplies the traffic of layers without products: it is above 1 if kernels cast and
compute in fp32 (eager mixed precision), below 1 if a compiler fuses them. Convolutions of
``channels_first`` images on matrix units add ``transposed`` times their traffic.

A board with fewer watts per peak FLOP/s than the measured one runs at a lower clock, because power
grows with the clock and with the square of the voltage, which rises with the clock.

`dpsim.workload.compute_constants` holds the constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpsim.base.arrays import BoolArray, FloatArray
from dpsim.workload.compute_constants import Constants
from dpsim.workload.layer import Layer, Model


class PassTimes(NamedTuple):
    """GPU seconds and kernels of each layer, in forward order."""

    forward: FloatArray
    backward: FloatArray
    forward_kernels: FloatArray
    backward_kernels: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class LayerWork:
    """The work of a model's layers, each a vector over layers.

    FLOP and traffic (elements) are per sample. Of a product, ``over_inner`` are the forward FLOP
    divided by the inner terms, ``over_width`` divided by the columns, and ``matrix`` the elements
    of its weights; ``over_head`` is 1 / the width of a head. ``read`` are the weights and
    ``written`` the gradients of a pass, ``gradients`` the kernels of a backward pass per forward
    kernel, ``tensors`` the trained tensors.
    """

    flop: FloatArray
    backward_flop: FloatArray
    over_inner: FloatArray
    over_width: FloatArray
    matrix: FloatArray
    over_head: FloatArray
    traffic: FloatArray
    backward_traffic: FloatArray
    read: FloatArray
    written: FloatArray
    gradients: FloatArray
    tensors: FloatArray
    steps: FloatArray
    convolves: BoolArray
    attends: BoolArray
    recurs: BoolArray
    winograd: BoolArray
    loss: BoolArray
    in_block: BoolArray

    @classmethod
    def of(cls, model: Model) -> LayerWork:
        """Return the vectors of a model."""
        layers = model.layers
        flop, backward = model.vector("forward_flop"), model.vector("backward_flop")
        traffic = model.vector("backward_traffic")
        own, used = model.vector("own_weights"), model.vector("borrowed")
        used = used + own
        table = np.array([layer.kind == "embedding" for layer in layers])
        frozen = np.array([layer.frozen for layer in layers])
        recurs = np.array([is_recurrent(layer) for layer in layers])
        # Layers that state no shape contribute nothing.
        shapes = [layer.shape or (0, 1, 1) for layer in layers]
        rows, inner, width = np.array(shapes, dtype=float).T
        product = (rows > 0) & ~recurs
        over = np.where(product, flop, 0.0)
        return cls(
            flop,
            backward,
            over / np.maximum(inner, 1),
            over / np.maximum(width, 1),
            np.where(product, inner * width, 0.0),
            np.array([1 / layer.head if layer.head else 0.0 for layer in layers]),
            model.vector("forward_traffic"),
            traffic,
            # The rows read from a table count as traffic; its whole gradient is written.
            np.where(table, 0.0, used),
            np.where(frozen, 0.0, np.where(table, own, used)),
            # One kernel by the weights and, except in the first layer, one by the input.
            np.where(flop > 0, backward / np.maximum(flop, 1), traffic > 0),
            np.where(frozen, 0.0, [len(layer.parameters) for layer in layers]),
            model.vector("steps"),
            np.array([layer.kind == "conv" for layer in layers]),
            np.array([layer.head > 0 for layer in layers]),
            recurs,
            np.array([is_winograd(layer) for layer in layers]),
            np.array([layer.kind == "loss" for layer in layers]),
            np.array([layer.shape is not None and layer.block is not None for layer in layers]),
        )

    def pass_times(self, c: Constants, machine: Machine, batch: FloatArray | int) -> PassTimes:
        """Return each layer's seconds for a pass over ``batch`` samples, without waiting.

        Constants, the machine's numbers and the batch may be vectors over layers.
        """
        terms = np.where(machine.matrix_units, c.inner_ramp, 0.0)
        head = 1 + c.head_ramp * self.over_head
        forward_flop = batch * (self.flop + terms * self.over_inner) * head
        # The gradient by the weights takes 2 k n (m + ramp): its ramp does not grow with the batch.
        one_gradient = self.backward_flop <= self.flop
        by_input = np.where(one_gradient, 0.0, batch * terms * self.over_width)
        backward_flop = batch * self.backward_flop * head + by_input + 2 * terms * self.matrix

        speed = self._speed(c, machine)
        factor = np.where(self.loss, c.loss, c.elementwise)
        transposing = np.where(self.convolves & machine.transposes, 1 + c.transposed, 1.0)
        factor = np.where(self.flop > 0, transposing, factor)
        rate = c.memory * machine.bandwidth / machine.width
        twice = self.gradients > 1
        forward = np.hypot(forward_flop / speed, (batch * factor * self.traffic + self.read) / rate)
        backward = np.hypot(
            backward_flop / speed,
            (batch * factor * self.backward_traffic + self.read * twice + self.written) / rate,
        )
        cast = np.where(machine.narrow & self.in_block & ~self.attends, c.casts, 0.0) * batch / rate
        kernels = self.gradients * self.steps + c.tensor_kernels * self.tensors
        return PassTimes(
            forward + cast * self.traffic + c.ramp * self.steps,
            backward + cast * self.backward_traffic + c.ramp * kernels,
            self.steps,
            kernels,
        )

    def _speed(self, c: Constants, machine: Machine) -> FloatArray:
        """Return the FLOP/s that large products of each layer reach."""
        reduction = np.where(self.winograd & machine.winograd, c.winograd, 1.0)
        share = np.where(self.convolves, c.conv, c.product)
        share = np.where(self.recurs, c.recurrent, np.where(self.attends, c.attention, share))
        peak = np.where(self.recurs, machine.plain_peak, machine.peak)
        narrow = machine.narrow & self.in_block & ~self.attends
        speed_up = np.where(machine.nvfp4, c.nvfp4, c.fp8)
        share = np.minimum(share, 1.0)
        share = np.where(narrow, np.minimum(share * speed_up, machine.narrow_peak), share)
        # Only saved FLOP and narrow precisions may exceed the peak.
        return np.asarray(peak * share * reduction)


class Machine(NamedTuple):
    """The properties of a GPU in one precision; each may be a vector over layers.

    ``peak``: FLOP/s that the board sustains, ``plain_peak`` in recurrences; ``bandwidth``: of its
    memory (B/s); ``width``: bytes of an element. Flags: products run on ``matrix_units``;
    convolutions have a transpose of their images (``transposes``), or use Winograd's algorithm;
    linear layers are ``narrow``, fp8 or ``nvfp4``, with ``narrow_peak`` times the peak.
    """

    peak: FloatArray | float
    plain_peak: FloatArray | float
    bandwidth: FloatArray | float
    width: FloatArray | float
    matrix_units: BoolArray | bool
    transposes: BoolArray | bool
    winograd: BoolArray | bool
    narrow: BoolArray | bool
    nvfp4: BoolArray | bool
    narrow_peak: FloatArray | float


def flop_reduction(model: Model, constants: Constants, precision: str) -> FloatArray:
    """Return each layer's stated FLOP over the computed ones: above 1 for Winograd's algorithm."""
    reduced = np.array([is_winograd(layer) for layer in model.layers])
    return np.where(reduced & (precision == "fp32"), constants.winograd, 1.0)


def is_recurrent(layer: Layer) -> bool:
    """Return whether a layer is a sequence of products, each of which waits for the previous one.

    Libraries compute such products in fp32 if tf32 is requested.
    """
    return layer.steps > 1 and layer.forward_flop > 0


def is_winograd(layer: Layer) -> bool:
    """Return whether libraries may compute a layer by Winograd's algorithm.

    They may for a convolution of window 3x3 or more, stride 1 and about equal channels in and out.
    A layer does not state its window k. With stride 1 its traffic is (in + out) channels times h w,
    its FLOP 2 h w weights, and weights = k^2 in out <= k^2 (in + out)^2 / 4, which bounds k^2 from
    below; a stride makes the bound smaller.
    """
    if layer.kind != "conv" or not layer.parameters:
        return False
    weights = max(layer.parameters)  # a bias is smaller
    area = layer.forward_flop / (2 * weights)
    channels = layer.forward_traffic / max(area, 1.0)  # in + out
    return 4 * weights > _LEAST_WINDOW * channels**2


_LEAST_WINDOW = 7.5  # k^2: above 1x7, below 3x3 with twice as many channels out as in
