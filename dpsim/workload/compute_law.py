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

Each constant is a product over parts: a common one, the precision, the GPU's generation, its plain
cores where fp32 does not run on matrix units, the way kernels are launched, the tier of the
software, the year of its kernels, its statistics of gradients. ``compute_law.yaml`` beside this
module holds them with their errors; ``python -m tools.refits.compute_refit`` fits them to published
steps and writes that file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from dpsim.base.arrays import BoolArray, FloatArray
from dpsim.base.errors import DpsimError
from dpsim.base.shipped import shipped
from dpsim.workload.layer import Layer, Model
from dpsim.workload.software import Software

# Generations without matrix units: frameworks compute half precision at the rate of fp32.
WITHOUT_TENSOR_CORES = ("kepler", "maxwell", "pascal")
_SHARES = {"conv", "product", "recurrent", "attention", "memory"}
_LEAST_SHARE = 1e-9
NARROW = ("fp8", "nvfp4")
_HALF = ("fp16", "bf16", *NARROW)
NEWEST_KERNELS = "2024"
_REFERENCE_KERNELS = "2023"  # the reference year


@dataclass(frozen=True, slots=True)
class Constants:
    """Constants of computing on one GPU in one precision by one software.

    ``conv``, ``product``, ``recurrent`` and ``attention`` are shares of peak; ``winograd`` is how
    many times fewer multiplications 3x3 convolutions of stride 1 take in fp32 (2.25 with tiles of
    2x2 outputs, 4 with 4x4: Lavin and Gray 2016, arXiv:1509.09308); ``fp8`` and ``nvfp4`` multiply
    the speed of linear layers inside blocks in these precisions, whose casts move ``casts`` times
    their traffic. ``memory`` is a share of the memory's bandwidth. ``inner_ramp`` and ``head_ramp``
    are lengths (terms), ``ramp`` seconds a kernel. ``elementwise``, ``loss`` and ``transposed``
    multiply traffic. ``launch`` is the host's seconds a kernel, ``update_kernels`` those of an
    update for each state of a tensor, ``step`` exposed seconds of a step, ``script`` the seconds of
    a script that feeds samples itself, ``tensor_kernels`` the kernels of statistics for each
    gradient tensor. ``wire`` is the bytes that the memory moves for each byte of
    a payload communicated during a pass; ``copies`` multiplies the copies of strategies.
    ``throttle`` is the share of its clock that a board of at most 75 W keeps, ``clock_power`` the
    exponent by which speed follows watts, of which ``watts`` a FLOP/s of peak are the measured
    board's.
    """

    conv: float = 1.0
    product: float = 1.0
    recurrent: float = 1.0
    attention: float = 1.0
    winograd: float = 1.0
    fp8: float = 1.0
    nvfp4: float = 1.0
    casts: float = 0.0
    memory: float = 1.0
    inner_ramp: float = 0.0
    head_ramp: float = 0.0
    ramp: float = 0.0
    elementwise: float = 1.0
    loss: float = 1.0
    transposed: float = 0.0
    launch: float = 0.0
    update_kernels: float = 0.0
    step: float = 0.0
    script: float = 0.0
    tensor_kernels: float = 0.0
    wire: float = 0.0
    copies: float = 1.0
    throttle: float = 1.0
    clock_power: float = 0.0
    watts: float = 1.0

    def measured(self, found: Mapping[str, float], precision: str) -> Constants:
        """Return the constants with measured values: ``product``, or ``product_half`` for half.

        Raises DpsimError for a share so small that steps would never end.
        """
        family, known = precision_family(precision), set(CONSTANTS)
        ends = {f"_{each}" for each in (family, precision)}
        own = {name: value for name, value in found.items() if name in known}
        for name, value in found.items():
            bare, _, end = name.rpartition("_")
            if bare in known and f"_{end}" in ends:
                own[bare] = value
        for name in _SHARES & own.keys():
            if own[name] < _LEAST_SHARE:
                raise DpsimError(
                    f"calibration: constants.{name}: value must be at least {_LEAST_SHARE:g}, but "
                    f"got {own[name]:g}"
                )
        if "conv" in own:
            own.setdefault("winograd", 1.0)
        return replace(self, **own)


CONSTANTS = tuple(field.name for field in fields(Constants))


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


def precision_family(precision: str) -> str:
    """Return ``half`` for precisions of at most two bytes, else the precision itself."""
    return "half" if precision in _HALF else precision


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


def members_of(model: Model, generation: str, precision: str, software: Software) -> dict[str, str]:
    """Return the member that applies in each part of ``compute_law.yaml``."""
    family = precision_family(precision)
    fused = family == "half" and any(layer.head for layer in model.layers)
    year = software.kernels if fused else _REFERENCE_KERNELS
    eager, tier = software.is_eager, software.tier
    casts = "eager half" if family == "half" else "eager"
    # Libraries for large models have norms and positions in one kernel each.
    plain = tier in ("reference", "typical") or software.kernels == NEWEST_KERNELS
    shape = "other"
    if eager and tier != "mlperf" and family == "half":
        attends = any(layer.kind == "attention" for layer in model.layers)
        if attends and not fused and tier != "tuned":
            shape = "unfused attention"
        # RMS norms have no bias, unlike batch and layer norms.
        elif (
            fused
            and plain
            and any(layer.kind == "norm" and len(layer.parameters) < 2 for layer in model.layers)
        ):
            shape = "rms"
    return {
        "shared": "every",
        "precision": family,
        "generations": standing_for(generation),
        "cores": standing_for(generation) if precision == "fp32" else "matrix units",
        "fusion": casts if eager else "compiled",
        "execution": software.execution,
        "software": tier,
        "optimizer_kernels": software.optimizer_kernels,
        "kernels": year,
        # A compiler fuses operations that the kernels of a given year do not.
        "unfused": year if eager else _REFERENCE_KERNELS,
        "shapes": shape,
        "statistics": software.gradient_statistics,
    }


def composed(
    values: Mapping[str, Mapping[str, Mapping[str, Any]]], members: Mapping[str, str]
) -> dict[str, Any]:
    """Return each constant as the product of the values of these members in all parts."""
    found: dict[str, Any] = {}
    for part, member in members.items():
        for name, value in values[part].get(member, {}).items():
            found[name] = found.get(name, 1.0) * value
    return found


def constants_for(model: Model, generation: str, precision: str, software: Software) -> Constants:
    """Return the fitted constants of a model on a generation of GPUs.

    An unmeasured generation uses the constants of the one that represents it.
    """
    members = members_of(model, generation, precision, software)
    return _composed(tuple(members.items()))


@cache
def _composed(members: tuple[tuple[str, str], ...]) -> Constants:
    found = composed(_values(), dict(members))
    return of_products(found)


def of_products(found: Mapping[str, Any]) -> Constants:
    """Return constants from composed values; ``products`` multiplies all shares of products."""
    values = dict(found)
    products = values.pop("products", 1.0)
    for name in ("conv", "product", "recurrent"):
        if name in values:
            values[name] = values[name] * products
    return Constants(**values)


@cache
def _values() -> dict[str, dict[str, dict[str, float]]]:
    content = constants_file()
    return {
        part: {
            member: {name: float(entry["value"]) for name, entry in table.items()}
            for member, table in content[part].items()
        }
        for part in PARTS
    }


PARTS = (
    "shared",
    "precision",
    "generations",
    "cores",
    "fusion",
    "execution",
    "software",
    "optimizer_kernels",
    "kernels",
    "unfused",
    "shapes",
    "statistics",
)


@cache
def constants_file() -> dict[str, Any]:
    """Return ``compute_law.yaml``: each constant's value, relative standard error and meaning."""
    loaded: dict[str, Any] = shipped(files("dpsim.workload") / "compute_law.yaml")
    return loaded


def forget_constants() -> None:
    """Clear the caches, so that ``compute_law.yaml`` is read again."""
    for kept in (constants_file, _values, _composed):
        kept.cache_clear()


def standing_for(generation: str) -> str:
    """Return the generation whose measurements are used for this one: itself where measured."""
    content = constants_file()
    if generation in content["generations"]:
        return generation
    found: str = content["extrapolated"].get(generation, content["extrapolated"]["other"])
    return found
