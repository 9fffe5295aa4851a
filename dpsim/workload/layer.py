"""A model: layers in forward order, with their parameters, work, memory traffic and activations.

FLOP count matrix products only (convolutions, linear layers, attention), two for a multiply and an
add, as in `torch.utils.flop_counter`; everything else costs memory traffic. (Many tables, and the
4.1 "GFLOP" often quoted for ResNet-50, count multiply-adds: half as many.) All amounts except
parameters are per sample; traffic and activations are in elements, so that the precision scales
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, cast, get_args

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dpsim.workload.measured_times import MeasuredTimes

T = TypeVar("T")

Kind = Literal["attention", "conv", "elementwise", "embedding", "linear", "loss", "norm", "pool"]
KINDS: tuple[Kind, ...] = get_args(Kind)

Amount = Literal[
    "forward_flop",
    "backward_flop",
    "forward_traffic",
    "backward_traffic",
    "activations",
    "own_weights",
    "trained_weights",
    "borrowed",
    "steps",
    "over_batch",
]

# An image in the description of a sample: "224x224 image".
_IMAGE = re.compile(r"(\d+)x(\d+) image")
# A block is named up to the first number between dots: "layer1.0" of "layer1.0.conv1".
_BLOCK = re.compile(r"(.*?\.\d+)\..+")


@dataclass(frozen=True, slots=True)
class Layer:
    """One step of the forward pass and its part of the backward pass.

    - ``parameters``: elements of each parameter tensor, in torch's order (weight, bias, ...);
      ``borrowed``: elements of weights that another layer owns (a tied output layer).
    - ``forward_flop``, ``backward_flop``: FLOP per sample; backward computes the gradient by the
      weights and, except in the first layer, by the input.
    - ``forward_traffic``, ``backward_traffic``: activation elements read and written per sample.
    - ``activations``: elements per sample that are kept until backward.
    - ``steps``: the number of sequential parts (time steps of a recurrent layer), each with its own
      kernels.
    - ``shape``: rows per sample, inner terms and columns of a product of tokens with weights.
    - ``head``: the width of a head of fused attention, otherwise 0.
    - ``frozen``: the weights, owned or borrowed, are not trained.
    - ``over_batch``: it normalises over the batch, with statistics that workers may share.
    """

    name: str
    kind: Kind
    parameters: tuple[int, ...] = ()
    borrowed: int = 0
    forward_flop: int = 0
    backward_flop: int = 0
    forward_traffic: int = 0
    backward_traffic: int = 0
    activations: int = 0
    steps: int = 1
    shape: tuple[int, int, int] | None = None
    head: int = 0
    frozen: bool = False
    over_batch: bool = False

    @property
    def own_weights(self) -> int:
        """Elements of all parameter tensors."""
        return sum(self.parameters)

    @property
    def trained_weights(self) -> int:
        """Elements of the trained tensors: all, or none of a frozen layer."""
        return 0 if self.frozen else self.own_weights

    @property
    def block(self) -> str | None:
        """The numbered block that contains the layer, or None."""
        match = _BLOCK.match(self.name)
        return match.group(1) if match else None


class Tensors(NamedTuple):
    """Parameter tensors in registration order: their elements, and the indices of their layers."""

    elements: NDArray[np.int64]
    layer: NDArray[np.int64]


@dataclass(frozen=True)
class Model:
    """A named tuple of layers in forward order.

    ``sample`` describes one sample, such as ``"224x224 image"``; ``tokens`` is its length if it is
    text. ``parameter_bytes`` is the width of weights, gradients and optimiser state. ``measured``
    are measured times of the layers, which replace computed ones. ``notes`` describe uncertainties
    of a traced or imported model.
    """

    name: str
    layers: tuple[Layer, ...]
    sample: str
    measured: MeasuredTimes | None = None
    notes: tuple[str, ...] = ()
    tokens: int | None = None
    parameter_bytes: int = 4

    @cached_property
    def parameters(self) -> int:
        """Parameter elements, trained and frozen."""
        return sum(layer.own_weights for layer in self.layers)

    @cached_property
    def trained(self) -> int:
        """Trained parameter elements."""
        return sum(layer.trained_weights for layer in self.layers)

    @cached_property
    def first_trained(self) -> int:
        """The first layer with trained weights, where backward ends."""
        trained = (index for index, layer in enumerate(self.layers) if layer.trained_weights)
        return next(trained, len(self.layers))

    @cached_property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """First layer and one past the last of each block; layers outside blocks are one each."""
        names = [layer.block or layer.name for layer in self.layers]
        starts = [i for i in range(1, len(names)) if names[i] != names[i - 1]]
        return tuple(pairwise([0, *starts, len(names)]))

    @property
    def image_bytes(self) -> int:
        """Bytes of a sample that is an image, in fp32 with three channels; 0 for others."""
        sides = _IMAGE.match(self.sample)
        return 0 if sides is None else 3 * 4 * int(sides[1]) * int(sides[2])

    @cached_property
    def forward_flop(self) -> int:
        """FLOP per sample of the forward pass."""
        return sum(layer.forward_flop for layer in self.layers)

    @cached_property
    def backward_flop(self) -> int:
        """FLOP per sample of the backward pass."""
        return sum(layer.backward_flop for layer in self.layers)

    @cached_property
    def activations(self) -> int:
        """Elements per sample that are kept for the backward pass."""
        return sum(layer.activations for layer in self.layers)

    @cached_property
    def tensors(self) -> Tensors:
        """The trained parameter tensors, in registration order.

        Gradients become ready in roughly the reverse order.
        """
        pairs = [
            (elements, index)
            for index, layer in enumerate(self.layers)
            for elements in layer.parameters
            if not layer.frozen
        ]
        # reshape, for a model without tensors.
        elements, layer = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return Tensors(elements, layer)

    def vector(self, amount: Amount) -> NDArray[np.float64]:
        """Return an amount of all layers, in forward order."""
        return np.array([getattr(layer, amount) for layer in self.layers], dtype=float)

    def cached(self, derive: Callable[..., T], *args: Hashable) -> T:
        """Return ``derive(self, *args)``, computed once for this model."""
        key = (derive, *args)
        if key not in self._cache:
            self._cache[key] = derive(self, *args)
        return cast(T, self._cache[key])

    @cached_property
    def _cache(self) -> dict[tuple[Hashable, ...], object]:
        return {}

    def __repr__(self) -> str:
        return (
            f"<Model {self.name}: {len(self.layers)} layers, "
            f"{self.parameters:,} parameters, per {self.sample}>"
        )
