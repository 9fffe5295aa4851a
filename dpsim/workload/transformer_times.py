"""How long the layers of a transformer compute in half precision or fp8, by the shapes they state.

A product of m rows by k inner terms by n columns takes

    2 m n (k + ramp) / (products x peak),

since a kernel fills its pipeline and writes its tile out once for each inner dimension, however
long that is. Its gradient by the input has n inner terms, that by the weights m. So efficiency
grows with the hidden width and with the tokens of a pass. Fused attention with heads of width d
takes FLOP (1 + head_ramp / d) / (attention x peak): its exponentials do not shrink with d. All
else is traffic over a share of the memory's bandwidth: ``elementwise`` is how many times the
traffic that the layers state (each tensor read and written once) an execution really moves, as
eager kernels do that are not fused and compute in fp32. In fp8 the linear layers of blocks run
``fp8`` times as fast as in bf16, what is cast on the way included; nothing else changes.

A board with fewer watts for its peak than its generation's first keeps less of its clock: power
grows with the clock and the square of the voltage, which rises with it.

The constants stand in ``transformers.yaml`` beside this module with their errors. ``python -m
tools.refits.transformer_refit`` writes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpsim.base.arrays import BoolArray, FloatArray
from dpsim.base.shipped import shipped
from dpsim.workload.layer import Layer, Model

if TYPE_CHECKING:
    from dpsim.workload.roofline import Accelerator

_WIDTH = 2.0  # bytes of an activation and of a weight as products read it


@dataclass(frozen=True, slots=True)
class TransformerEfficiency:
    """Constants of one generation of GPUs under one execution.

    ``products`` and ``attention`` are shares of peak, ``memory`` one of the memory's bandwidth,
    ``inner_ramp`` and ``head_ramp`` lengths (terms), ``elementwise`` and ``loss`` how many times
    the stated traffic is moved, ``fp8`` a factor on bf16's speed, ``launch`` seconds a kernel.
    ``wire`` is the bytes that the memory moves for each byte of a payload that is communicated
    beside a pass; ``copies`` multiplies what strategies copy. ``watts`` are those of the measured
    board for each FLOP/s of its peak, ``clock_power`` the exponent by which speed follows them.
    ``measured_on`` is the generation that was measured.
    """

    products: float
    attention: float
    memory: float
    watts: float
    inner_ramp: float
    head_ramp: float
    fp8: float
    clock_power: float
    copies: float
    wire: float
    elementwise: float
    loss: float
    launch: float
    measured_on: str

    def clock(self, power: float | None, peak: float) -> float:
        """The share of its clock that a board of ``power`` W keeps at ``peak`` FLOP/s."""
        if power is None:
            return 1.0
        return float(min(1.0, power / peak / self.watts) ** self.clock_power)

    def pass_times(
        self, model: Model, accelerator: Accelerator, batch: int, precision: str
    ) -> PassTimes:
        """Each layer's seconds for a pass over ``batch`` samples, without any waiting."""
        # Of fp8 too, whose constant is a factor on bf16's speed.
        peak = accelerator.peak("fp16" if precision == "fp16" else "bf16")
        kept = peak * self.clock(accelerator.power, peak)
        shapes, fp8 = Shapes.of(model), precision == "fp8"
        return shapes.pass_times(self, batch, fp8, kept, accelerator.memory_bandwidth)


class PassTimes(NamedTuple):
    """Seconds on the GPU and kernels of each layer, in forward order."""

    forward: FloatArray
    backward: FloatArray
    forward_kernels: FloatArray
    backward_kernels: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """What the layers of a model state, a vector over layers each.

    FLOP and traffic (elements) are per sample. ``over_inner`` are forward FLOP over the inner
    dimension k, ``over_width`` over the columns n, ``weights`` the elements of a product's matrix
    and ``rows`` its rows per sample; ``over_head`` is 1 over the width of a head.
    """

    flop: FloatArray
    backward_flop: FloatArray
    over_inner: FloatArray
    over_width: FloatArray
    weights: FloatArray
    over_head: FloatArray
    traffic: FloatArray
    backward_traffic: FloatArray
    attends: BoolArray
    product: BoolArray
    loss: BoolArray
    in_block: BoolArray
    table: FloatArray

    @classmethod
    def of(cls, model: Model) -> Shapes:
        """The vectors of a model."""
        layers = model.layers
        # What states no shape is divided by ones below, and counts nothing.
        shapes = [layer.shape or (0, 0, 0) for layer in layers]
        inner = np.array([max(inner, 1) for _, inner, _ in shapes], dtype=float)
        width = np.array([max(width, 1) for _, _, width in shapes], dtype=float)
        product = np.array([rows > 0 for rows, _, _ in shapes])
        flop = model.vector("forward_flop")
        return cls(
            flop,
            model.vector("backward_flop"),
            np.where(product, flop / inner, 0.0),
            np.where(product, flop / width, 0.0),
            np.where(product, inner * width, 0.0),
            np.array([1 / layer.head if layer.head else 0.0 for layer in layers]),
            model.vector("forward_traffic"),
            model.vector("backward_traffic"),
            np.array([layer.kind == "attention" for layer in layers]),
            product,
            np.array([layer.kind == "loss" for layer in layers]),
            np.array([_stands_in_block(layer) for layer in layers]),
            np.array([layer.own_weights if layer.kind == "embedding" else 0.0 for layer in layers]),
        )

    def pass_times(
        self,
        constants: TransformerEfficiency,
        batch: FloatArray | int,
        fp8: BoolArray | bool,
        peak: FloatArray | float,
        memory_bandwidth: FloatArray | float,
    ) -> PassTimes:
        """Each layer's seconds for a pass over ``batch`` samples, without any waiting.

        ``peak`` is bf16's in FLOP/s as the board keeps it, ``memory_bandwidth`` nominal B/s. All
        may be vectors over layers.
        """
        ramp = constants.inner_ramp
        head = 1 + constants.head_ramp * self.over_head
        forward_flop = batch * (self.flop + ramp * self.over_inner) * head
        # Backward of a product: one by the input, with n inner terms, one by the weights, with m.
        by_input = batch * ramp * self.over_width
        # 2 k n (m + ramp): the term of the ramp has no m, and so no batch, in it.
        by_weights = 2 * ramp * self.weights
        first = self.backward_flop <= self.flop  # no gradient by the input
        backward_flop = (
            batch * self.backward_flop * head + np.where(first, 0.0, by_input) + by_weights
        )

        share = np.where(self.attends, constants.attention, constants.products)
        # Products outside blocks, the output layer above all, stay in bf16.
        speed = peak * share * np.where(fp8 & self.product & self.in_block, constants.fp8, 1.0)
        moved = np.where(self.loss, constants.loss, constants.elementwise)
        rate = constants.memory * memory_bandwidth / _WIDTH
        forward_traffic = np.where(
            self.flop > 0,
            batch * self.traffic + self.weights,
            batch * moved * self.traffic,
        )
        # A product reads its weights and writes their gradient; a table's gradient is mostly zeros.
        backward_traffic = np.where(
            self.flop > 0,
            batch * self.backward_traffic + 2 * self.weights,
            batch * moved * self.backward_traffic + self.table,
        )
        gradients = np.where(self.product & ~first, 2.0, self.backward_traffic > 0)
        return PassTimes(
            np.maximum(forward_flop / speed, forward_traffic / rate),
            np.maximum(backward_flop / speed, backward_traffic / rate),
            np.ones(len(self.flop)),
            gradients,
        )


def _stands_in_block(layer: Layer) -> bool:
    """Whether a layer belongs to a numbered block: "layers.3.mlp.up_proj"."""
    return any(part.isdecimal() for part in layer.name.split("."))


@cache
def constants() -> dict[str, Any]:
    """``transformers.yaml``: every constant with its value, relative standard error, meaning."""
    loaded: dict[str, Any] = shipped(files("dpsim.workload") / "transformers.yaml")
    return loaded


def standing_for(generation: str) -> str:
    """The generation whose measurements stand for this one: itself where it was measured."""
    found: str = constants()["extrapolated"].get(generation, generation)
    return found


@cache
def transformer_efficiency(
    generation: str, execution: str = "eager", kernels: str = "2024"
) -> TransformerEfficiency | None:
    """The constants for a generation; None for one that no measured generation stands for."""
    content, measured_on = constants(), standing_for(generation)
    if measured_on not in content["generations"]:
        return None
    parts = (
        content["shared"],
        content["generations"][measured_on],
        content["execution"][execution],
    )
    values = {name: float(entry["value"]) for part in parts for name, entry in part.items()}

    # What kernels of a year do not fuse, a compiler does.
    by_year = [content["kernels"], *([content["unfused"]] if execution == "eager" else [])]
    for table in by_year:
        for name, entry in table[kernels].items():
            values[name] *= float(entry["value"])
    return TransformerEfficiency(**values, measured_on=measured_on)
