"""What a worker does alone: forward, backward, and its own optimiser's step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from validate.training.models import build
from validate.training.settings import Training
from validate.training.sgd import Sgd


class Replica:
    """A model and its SGD.

    ``weights`` and ``gradient`` are flat vectors of which the model's parameters are views, so that
    a method of training that changes either vector in place has changed the model.
    """

    def __init__(self, training: Training, device: Any = "cpu", seed: int | None = None) -> None:
        self.model = build(training, training.seed if seed is None else seed).to(device)
        self.weights, self.gradient = flattened(self.model)
        self.optimiser = Sgd(self.weights, self.gradient, training.learning_rate, training.momentum)

    def learn(
        self, images: Tensor, labels: Tensor, forward: Callable[[Tensor], Tensor] | None = None
    ) -> float:
        """The mean loss of a batch, and its gradient in ``gradient``.

        ``forward`` stands for the model where given.
        """
        # Not set_to_none, as torch's optimisers do: the parameters' gradients must stay views.
        self.gradient.zero_()
        loss = functional.cross_entropy((forward or self.model)(images), labels)
        loss.backward()
        return float(loss.detach())

    def update(self) -> None:
        """The weights move by what is in ``gradient``."""
        self.optimiser.step()


def flattened(model: nn.Module) -> tuple[Tensor, Tensor]:
    """Weights and gradients, each as one vector that all parameters, in order, become views of."""
    parameters = list(model.parameters())
    weights = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    gradient = torch.zeros_like(weights)
    # What is split is a view: the parameters share the vectors' memory from here on.
    sizes = [parameter.numel() for parameter in parameters]
    parts = zip(parameters, weights.split(sizes), gradient.split(sizes), strict=True)
    for parameter, own_weights, own_gradient in parts:
        parameter.data = own_weights.view_as(parameter)
        parameter.grad = own_gradient.view_as(parameter)
    return weights, gradient
