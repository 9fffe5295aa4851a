"""Stochastic gradient descent with momentum on one flat vector, equal to torch.optim.SGD.

The equations: v = mu v + gradient, w -= rate v.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Sgd:
    """Updates ``weights`` by ``gradient``; others also change both in place.

    Momentum is ``velocity``, v.
    """

    def __init__(self, weights: Tensor, gradient: Tensor, rate: float, momentum: float) -> None:
        self.weights = weights
        self.gradient = gradient
        self.rate = rate
        self.momentum = momentum
        self.velocity = torch.zeros_like(weights)

    def step(self) -> None:
        """Take one step."""
        # In place: the model's parameters are views of the weights.
        self.velocity.mul_(self.momentum).add_(self.gradient)
        self.weights.add_(self.velocity, alpha=-self.rate)

    def state_dict(self) -> dict[str, Any]:
        """Return settings and state, like torch's optimisers."""
        return {"rate": self.rate, "momentum": self.momentum, "velocity": self.velocity}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load settings and state."""
        self.rate, self.momentum = state["rate"], state["momentum"]
        self.velocity.copy_(state["velocity"])
