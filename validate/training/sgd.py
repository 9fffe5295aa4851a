"""Stochastic gradient descent with momentum on one flat vector, as torch.optim.SGD.

The equations: v = mu v + gradient, w -= rate v.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Sgd:
    """Moves ``weights`` by what is in ``gradient``, both changed in place by others too.

    Momentum is ``velocity``, v.
    """

    def __init__(self, weights: Tensor, gradient: Tensor, rate: float, momentum: float) -> None:
        self.weights = weights
        self.gradient = gradient
        self.rate = rate
        self.momentum = momentum
        self.velocity = torch.zeros_like(weights)

    def step(self) -> None:
        """One step."""
        # In place: the model's parameters are views of the weights.
        self.velocity.mul_(self.momentum).add_(self.gradient)
        self.weights.add_(self.velocity, alpha=-self.rate)

    def state_dict(self) -> dict[str, Any]:
        """Settings and state, as torch's optimisers give them."""
        return {"rate": self.rate, "momentum": self.momentum, "velocity": self.velocity}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The reverse."""
        self.rate, self.momentum = state["rate"], state["momentum"]
        self.velocity.copy_(state["velocity"])
