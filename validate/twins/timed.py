"""A model whose layers only take time: the weights of the scenario's model, and its seconds.

Each layer spins for its predicted time, forward and backward, and has the predicted number of
weights. Every aggregation therefore treats it like a real model, whatever the scenario trains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dpsim.workload import Model
from validate.ranks.device import DeviceFace
from validate.twins.subject import Subject

_FEATURES = 8  # of the vector that goes from layer to layer


class _Spun(torch.autograd.Function):
    """Passes values on, and spins in both directions."""

    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, layer: SpunLayer) -> Tensor:
        context.layer = layer
        context.save_for_backward(weight)
        layer.face.spin(layer.forward_s)
        return x.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        context.layer.face.spin(context.layer.backward_s)
        (weight,) = context.saved_tensors
        # The gradient of zeros has the weights' size, so that it is sent like a real gradient.
        return gradient, torch.zeros_like(weight), None


class SpunLayer(nn.Module):
    """A number of weights, and seconds for each direction."""

    def __init__(
        self, weights: int, seconds: tuple[float, float], face: DeviceFace, *, frozen: bool = False
    ) -> None:
        super().__init__()
        self.face = face
        self.forward_s, self.backward_s = seconds
        self.weight = nn.Parameter(torch.zeros(max(weights, 1)), requires_grad=not frozen)

    def forward(self, x: Tensor) -> Tensor:
        """Return the input."""
        out: Tensor = _Spun.apply(x, self.weight, self)
        return out


def timed_subject(
    model: Model, forward_s: Sequence[float], backward_s: Sequence[float], face: DeviceFace
) -> Subject:
    """Return ``model`` as layers that take these seconds per pass on ``face``'s device."""

    def build() -> nn.Module:
        times = zip(model.layers, forward_s, backward_s, strict=True)
        layers = [
            SpunLayer(layer.own_weights, (there, back), face, frozen=layer.frozen)
            for layer, there, back in times
        ]
        return nn.Sequential(nn.Sequential(*layers))

    return Subject(model.name, build, (_FEATURES,), "float32")
