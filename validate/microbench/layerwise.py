"""LARS and LAMB, which torch lacks: a tensor's step is proportional to the norm of its weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

_MOMENTUM = 0.9
_MOMENTS, _EPSILON = (0.9, 0.999), 1e-6


class _Layerwise(torch.optim.Optimizer):
    """Updates one tensor after the other."""

    def __init__(self, params: Iterable[Tensor], lr: float) -> None:
        super().__init__(params, {"lr": lr})

    def step(self, closure: Any = None) -> None:
        with torch.no_grad():
            for group in self.param_groups:
                for weights in group["params"]:
                    if weights.grad is not None:  # frozen weights have none
                        self._move(weights, group["lr"])

    @abstractmethod
    def _move(self, weights: Tensor, rate: float) -> None:
        """Update ``weights`` by their gradient."""


class Lars(_Layerwise):
    """SGD with momentum, with the gradient g of a tensor w scaled by |w| / |g|.

    Source: You, Gitman and Ginsburg, "Large Batch Training of Convolutional Networks", 2017
    (arXiv:1708.03888), without weight decay.
    """

    def _move(self, weights: Tensor, rate: float) -> None:
        state, gradient = self.state[weights], weights.grad
        if not state:
            state["velocity"] = torch.zeros_like(weights)
        scaled = gradient * _ratio(weights, gradient)
        state["velocity"].mul_(_MOMENTUM).add_(scaled)
        weights.sub_(rate * state["velocity"])


class Lamb(_Layerwise):
    """Adam, with the step u of a tensor w scaled by |w| / |u|.

    Source: You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes",
    ICLR 2020 (arXiv:1904.00962), algorithm 2 without weight decay.
    """

    def _move(self, weights: Tensor, rate: float) -> None:
        state, gradient, (first, second) = self.state[weights], weights.grad, _MOMENTS
        if not state:
            zeros = torch.zeros_like(weights)
            state.update(step=0, mean=zeros, square=zeros.clone())
        state["step"] += 1
        state["mean"].lerp_(gradient, 1 - first)
        state["square"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        mean = state["mean"] / (1 - first ** state["step"])
        square = state["square"] / (1 - second ** state["step"])
        update = mean / (square.sqrt() + _EPSILON)
        weights.sub_(rate * _ratio(weights, update) * update)


def _ratio(weights: Tensor, change: Tensor) -> Tensor:
    """Return |w| / |change|, and 1 if one of them is 0."""
    own, other = weights.norm(), change.norm()
    return torch.where((own > 0) & (other > 0), own / other, 1.0)
