"""The models that the simulator trains.

A model is a sequence of layers in forward order, each with its parameters, work, memory traffic and
activations.

Conventions: FLOP count only the matrix products (convolutions, linear layers, attention), two for a
multiply and an add, as in `torch.utils.flop_counter` and in published figures; everything else
costs memory traffic. (Many tables, and the 4.1 "GFLOP" often quoted for ResNet-50, count
multiply-adds: half of the FLOP here.) All amounts except parameters are per sample; traffic and
activations are in elements, so that the precision scales them.
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
# A block of a network: the name up to the first number between dots ("layer1.0.conv1",
# "h.11.mlp.c_fc").
_BLOCK = re.compile(r"(.*?\.\d+)\..+")


@dataclass(frozen=True, slots=True)
class Layer:
    """One step of the forward pass and its part of the backward pass.

    ``parameters`` are the element counts of its parameter tensors in the order torch registers them
    (weight, bias, ...); ``borrowed`` counts the elements of weights that another layer owns (a tied
    output layer). ``forward_flop`` and ``backward_flop`` are FLOP per sample; backward is the
    gradient by the input and by the weights; a model's first layer has no gradient by its input.
    ``forward_traffic`` and ``backward_traffic`` are activation elements read plus written per
    sample, weights apart. ``activations`` are elements per sample that stay in memory until
    backward. ``steps`` is how many parts of the work must wait for one another (the time steps of a
    recurrent layer), each with kernels of its own. ``shape`` is rows per sample, inner terms and
    columns of a product of tokens with weights, None for others; ``head`` is the width of a head of
    fused attention, 0 for others. The weights of a ``frozen`` layer, its own and borrowed ones, are
    read and never changed. ``over_batch``: it normalises over the batch, by statistics that workers
    may share.
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
    """Parameter tensors in registration order.

    The number of elements of each, and the index of the layer that owns it.
    """

    elements: NDArray[np.int64]
    layer: NDArray[np.int64]


@dataclass(frozen=True)
class Model:
    """A named tuple of layers in forward order.

    ``sample`` describes one sample, such as ``"224x224 image"``, and ``tokens`` is its number of
    tokens (None: it is no text). ``parameter_bytes`` is the width of a weight, of its gradient and
    of a value of the optimiser's state. ``measured`` are measured times of the layers, which
    replace computed ones. ``notes`` describe uncertainties of a model that was traced or imported.
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
        """The total of parameter elements, trained and frozen."""
        return sum(layer.own_weights for layer in self.layers)

    @cached_property
    def trained(self) -> int:
        """Parameter elements that are trained: they have gradients and are updated."""
        return sum(layer.trained_weights for layer in self.layers)

    @cached_property
    def first_trained(self) -> int:
        """The first layer with trained weights, where backward ends."""
        trains = (at for at, layer in enumerate(self.layers) if layer.trained_weights)
        return next(trains, len(self.layers))

    @cached_property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """First layer and one past the last of each block.

        A block is a run of layers whose names agree up to the first number; other layers are single
        blocks.
        """
        names = [layer.block or layer.name for layer in self.layers]
        starts = [i for i in range(1, len(names)) if names[i] != names[i - 1]]
        return tuple(pairwise([0, *starts, len(names)]))

    @property
    def image_bytes(self) -> int:
        """Bytes in fp32 of a sample that is an image of three channels; 0 for others."""
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
        # Keeps two columns where there are no tensors.
        elements, layer = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return Tensors(elements, layer)

    def vector(self, amount: Amount) -> NDArray[np.float64]:
        """Return one amount of all layers, in forward order."""
        return np.array([getattr(layer, amount) for layer in self.layers], dtype=float)

    def kept(self, derive: Callable[..., T], *given: Hashable) -> T:
        """Return ``derive(self, *given)``, which is computed once for this model.

        Keys compare by value, since values that are derived anew for each caller would never be
        freed.
        """
        key = (derive, *given)
        if key not in self._kept:
            self._kept[key] = derive(self, *given)
        return cast(T, self._kept[key])

    @cached_property
    def _kept(self) -> dict[tuple[Hashable, ...], object]:
        return {}

    def __repr__(self) -> str:
        return (
            f"<Model {self.name}: {len(self.layers)} layers, "
            f"{self.parameters:,} parameters, per {self.sample}>"
        )
