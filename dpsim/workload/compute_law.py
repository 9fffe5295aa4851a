"""The compute times of a model's layers on a GPU, from their work and fitted constants.

A kernel computes while it moves data. With FLOP / speed and bytes / rate of a layer's pass it takes

    sqrt(compute^2 + memory^2) + ramp x kernels,

a smooth maximum plus the seconds that each kernel needs to fill the GPU. Speed is a share of peak
by class of layer: convolutions, products, recurrences, fused attention. On matrix units a product
of m rows by k inner terms by n columns computes as if it had k + ``inner_ramp`` terms, since a
kernel fills its pipeline and writes its tile once for each inner dimension, however long that is.
The gradient by the input has n inner terms, the gradient by the weights m. Efficiency therefore
grows with the width of a model and with the samples of a pass. Fused attention with heads of width
d takes FLOP (1 + head_ramp / d), as its exponentials do not shrink with d.

Bytes are the sizes of the tensors that a layer reads and writes, at the width of the precision.
``elementwise`` multiplies the traffic of layers outside products: above 1 where kernels cast and
compute in fp32 (eager mixed precision), below 1 where a compiler fuses them. Convolutions on matrix
units whose images are ``channels_first`` move ``transposed`` times their traffic more.

A board with fewer watts per FLOP/s of peak than the first of its generation runs at a lower clock,
since power grows with the clock and with the square of the voltage, which rises with the clock.

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
    """Seconds on the GPU and kernels of each layer, in forward order."""

    forward: FloatArray
    backward: FloatArray
    forward_kernels: FloatArray
    backward_kernels: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class LayerWork:
    """The work of a model's layers, each a vector over layers.

    FLOP and traffic (elements) are per sample. ``over_inner`` are forward FLOP over the inner terms
    of a product, ``over_width`` over its columns; ``matrix`` the elements of its weights;
    ``over_head`` is 1 over the width of a head. ``read`` and ``written`` are weights and gradients
    of a pass, ``gradients`` the kernels of a backward pass for each of a forward pass, ``tensors``
    the trained tensors.
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
        # A product states its shape; other layers are divided by ones, and contribute nothing.
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
            # A table is read row by row, as traffic; its gradient is written whole, mostly zeros.
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
        """Return each layer's seconds for a pass over ``batch`` samples, without any waiting.

        Constants, the machine's numbers and the batch may be vectors over layers.
        """
        terms = np.where(machine.matrix_units, c.inner_ramp, 0.0)
        head = 1 + c.head_ramp * self.over_head
        forward_flop = batch * (self.flop + terms * self.over_inner) * head
        # The gradient by the input has n inner terms. The gradient by the weights takes
        # 2 k n (m + ramp): the term of its ramp has no m, and so no batch, in it.
        first = self.backward_flop <= self.flop  # no gradient by the input, or none by weights
        by_input = np.where(first, 0.0, batch * terms * self.over_width)
        backward_flop = batch * self.backward_flop * head + by_input + 2 * terms * self.matrix

        speed = self._speed(c, machine)
        moves = np.where(self.loss, c.loss, c.elementwise)
        more = np.where(self.convolves & machine.transposes, 1 + c.transposed, 1.0)
        moves = np.where(self.flop > 0, more, moves)
        rate = c.memory * machine.bandwidth / machine.width
        both = self.gradients > 1
        forward = np.hypot(forward_flop / speed, (batch * moves * self.traffic + self.read) / rate)
        backward = np.hypot(
            backward_flop / speed,
            (batch * moves * self.backward_traffic + self.read * both + self.written) / rate,
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
        saved = np.where(self.winograd & machine.winograd, c.winograd, 1.0)
        share = np.where(self.convolves, c.conv, c.product)
        share = np.where(self.recurs, c.recurrent, np.where(self.attends, c.attention, share))
        peak = np.where(self.recurs, machine.plain_peak, machine.peak)
        narrow = machine.narrow & self.in_block & ~self.attends
        faster = np.where(machine.nvfp4, c.nvfp4, c.fp8)
        share = np.minimum(share, 1.0)
        share = np.where(narrow, np.minimum(share * faster, machine.narrow_peak), share)
        # Above peak only where an algorithm saves FLOP, or in a precision with another peak.
        return np.asarray(peak * share * saved)


class Machine(NamedTuple):
    """The properties of a GPU in one precision; each may be a vector over layers.

    ``peak``: FLOP/s that the board sustains; ``plain_peak``: the same for recurrences;
    ``bandwidth``: its memory's, in B/s; ``width``: bytes of an element. The flags are whether
    products run on ``matrix_units``, convolutions transpose their images, and use Winograd's
    algorithm; and whether linear layers are in fp8 or nvfp4 (``narrow``), and in which.
    ``narrow_peak`` is the peak in that precision against the one of ``peak``.
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


def saved_by_algorithms(model: Model, constants: Constants, precision: str) -> FloatArray:
    """Return how many times fewer FLOP are computed than each layer states; 1 if none are saved."""
    served = np.array([is_winograd(layer) for layer in model.layers])
    return np.where(served & (precision == "fp32"), constants.winograd, 1.0)


def is_recurrent(layer: Layer) -> bool:
    """Return whether a layer is a product whose parts wait for one another.

    Libraries compute such products in fp32 where tf32 is requested.
    """
    return layer.steps > 1 and layer.forward_flop > 0


def is_winograd(layer: Layer) -> bool:
    """Return whether libraries may compute a layer's convolution by Winograd's algorithm.

    They may for windows of 3x3 or more and stride 1, where channels in and out are about equal. A
    layer does not state its window. With stride 1 its traffic is (in + out) channels times h w, its
    FLOP 2 h w weights, and weights = k^2 in out <= k^2 (in + out)^2 / 4, which bounds k^2 from
    below; a stride makes the bound smaller.
    """
    if layer.kind != "conv" or not layer.parameters:
        return False
    # The largest tensor: a bias, if any, is far smaller.
    weights = max(layer.parameters)
    area = layer.forward_flop / (2 * weights)
    # The sum of both.
    channels = layer.forward_traffic / max(area, 1.0)
    return 4 * weights > _LEAST_WINDOW * channels**2


_LEAST_WINDOW = 7.5  # above 1x7, below 3x3 with twice as many channels out as in
