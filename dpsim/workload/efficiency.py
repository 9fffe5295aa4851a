"""How much of a GPU's figures a layer reaches.

Named constants with their errors, in ``efficiency.yaml`` beside this module.

They are fitted (robust least squares of log ratios; a model counts as much as another, however many
rows it has) to one-GPU rows of the reference table ``single_gpu.csv`` by ``python -m
tools.refits.roofline_fit``, over the layer tables of this package. Frameworks and single GPUs have
effects of their own in that fit, which are left out here: what is predicted is the usual one.

How far to trust them stands in the file: each constant with its relative standard error, and the
errors of the fit over its rows. Two machines that run the same model on the same GPU with different
software differ by 10-70 %. Where the host or the loader is slow (the AdaptDL rows, TensorFlow 1.1)
a step takes up to twice what this predicts. A step time of one's own (``calibration:``) or a
measured table of layers is worth more than any of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from dpsim.base.shipped import shipped
from dpsim.workload.layer import Kind, Layer

Execution = Literal["eager", "compile", "graph"]
Kernels = Literal["2022", "2023", "2023-cuda12", "2024"]

# Generations whose half precision has no matrix units: frameworks then compute at the rate of fp32
# and only save bytes.
WITHOUT_TENSOR_CORES = ("kepler", "maxwell", "pascal")
_HALF = ("fp16", "bf16")
_CLASS: Mapping[Kind, str] = {"conv": "conv", "linear": "gemm", "attention": "gemm"}

# What is a constant of its own; other names are fractions of peak by class and precision.
_MEASURABLE = ("memory", "launch", "ramp")


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Constants of the roofline.

    ``fractions`` are shares of peak that large products reach, by class and precision
    (``"conv_fp32"``; classes conv, gemm and rnn; precisions fp32, tf32, half, fp8), 1 where none is
    given. ``speed`` multiplies all products: the generation's. ``winograd`` is how many times fewer
    multiplications 3x3 convolutions of stride 1 take in fp32: 2.25 with tiles of 2x2 outputs, 4
    with 4x4 (Lavin and Gray 2016, arXiv:1509.09308). ``ramp`` is seconds that a product
    takes to fill the GPU. ``memory`` is the reachable fraction of memory bandwidth, ``half_width``
    the bytes of an activation in half precision, on average over tensors that stay in fp32;
    ``fusion`` the share of traffic outside products that is left. ``launch`` is the host's seconds
    per kernel, ``update_launches`` kernels per parameter tensor of an update, ``step`` seconds per
    step that nothing hides. ``throttle`` is the share of its clock that a board of at most 75 W
    keeps. ``usual`` multiplies all seconds on the GPU: what frameworks of this kind take, in the
    middle of them.
    """

    fractions: Mapping[str, float]
    ramp: float
    memory: float
    launch: float
    speed: float = 1.0
    winograd: float = 1.0
    half_width: float = 2.0
    fusion: float = 1.0
    update_launches: float = 0.0
    step: float = 0.0
    throttle: float = 1.0
    usual: float = 1.0

    def measured(self, found: Mapping[str, float]) -> Efficiency:
        """The same with what was measured on one device, by name: its products, its memory.

        What products reach there is of that GPU and its libraries, so that neither its generation's
        speed nor what frameworks usually add counts again.
        """
        own = {name: value for name, value in found.items() if name in _MEASURABLE}
        fractions = {name: value for name, value in found.items() if name not in _MEASURABLE}
        if fractions:
            own |= {"speed": 1.0, "usual": 1.0, "winograd": 1.0}
        return replace(self, fractions={**self.fractions, **fractions}, **own)

    def large(self, layer: Layer, precision: str) -> float:
        """Fraction of peak that a large product of this layer reaches.

        Above 1 only by what an algorithm saves: no GPU carries out more FLOP/s than its peak.
        """
        # Whatever it is, no FLOP are divided by it.
        if layer.forward_flop == 0:
            return 1.0
        reached = self._fraction(layer, precision) * self._winograd(layer, precision)
        # ``usual`` multiplies the seconds that this takes.
        return min(reached, self.usual * self.saving(layer, precision))

    def saving(self, layer: Layer, precision: str) -> float:
        """How many times fewer FLOP are carried out than the layer states; 1 if none are saved.

        A convolution that was measured above the peak saves at least what exceeds it.
        """
        saving = self._winograd(layer, precision)
        if layer.kind != "conv":
            return saving
        return max(saving, self._fraction(layer, precision) / self.usual)

    def _winograd(self, layer: Layer, precision: str) -> float:
        return self.winograd if precision == "fp32" and is_winograd(layer) else 1.0

    def _fraction(self, layer: Layer, precision: str) -> float:
        kind = "rnn" if is_recurrent(layer) else _CLASS.get(layer.kind, "gemm")
        name = f"{kind}_{'half' if precision in _HALF else precision}"
        return self.fractions.get(name, 1.0) * self.speed


def is_recurrent(layer: Layer) -> bool:
    """Whether a layer is a product whose parts wait for one another.

    Libraries compute those in fp32 where tf32 is asked for.
    """
    return layer.steps > 1 and layer.forward_flop > 0


def is_winograd(layer: Layer) -> bool:
    """Whether libraries may compute a layer's convolution by Winograd's algorithm.

    They may with windows of 3x3 or more and stride 1, where channels in and out are about as many.
    A layer does not state its window. With stride 1 its traffic is (in + out) channels times h w,
    its FLOP 2 h w weights, and weights = k^2 in out <= k^2 (in + out)^2 / 4, which bounds k^2 from
    below; a stride makes the bound smaller.
    """
    if layer.kind != "conv" or not layer.parameters:
        return False
    # The largest tensor: a bias, if there is one, is far smaller.
    weights = max(layer.parameters)
    area = layer.forward_flop / (2 * weights)
    # In and out together.
    channels = layer.forward_traffic / max(area, 1.0)
    return 4 * weights > _LEAST_WINDOW * channels**2


_LEAST_WINDOW = 7.5  # above 1x7, below 3x3 with twice as many channels out as in


@cache
def fitted(generation: str = "other", execution: Execution = "eager") -> Efficiency:
    """The constants for a generation of GPUs.

    One that was not in the rows takes the mean of all.
    """
    content = constants()
    values: dict[str, float] = {
        name: float(entry["value"]) for name, entry in content["constants"].items()
    }
    software: dict[str, float] = {
        name: float(entry["value"]) for name, entry in content["execution"][execution].items()
    }
    speeds = content["generations"]
    return Efficiency(
        fractions={name: float(entry["value"]) for name, entry in content["fractions"].items()},
        speed=float(speeds[generation]["value"]) if generation in speeds else 1.0,
        **values,
        **software,
    )


@cache
def constants() -> dict[str, Any]:
    """``efficiency.yaml``.

    Every constant with its value, unit, relative standard error and meaning.
    """
    loaded: dict[str, Any] = shipped(files("dpsim.workload") / "efficiency.yaml")
    return loaded
