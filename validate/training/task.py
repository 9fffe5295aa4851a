"""The task of a run: a model, its data, its loss, and its optimiser."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from validate.training.digits import digits
from validate.training.models import build
from validate.training.settings import Training

Forward = Callable[[Tensor], Tensor]


class Task(ABC):
    """A model to train, the same for every worker.

    ``passes`` is the number per step, over equal batches; ``keeps_weights`` says whether a record
    has the final weights.
    """

    passes = 1
    keeps_weights = True

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of samples."""

    @abstractmethod
    def model(self, seed: int) -> nn.Module:
        """Return a new model on the device, its weights drawn from ``seed``."""

    def outline(self, seed: int) -> nn.Module:
        """Return the model for a method that shards it, if possible without weights at first."""
        return self.model(seed)

    def fill(self, part: nn.Module) -> None:  # noqa: B027 - most outlines have their weights
        """Draw missing weights of ``part`` on the device, the same on all ranks."""

    @abstractmethod
    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and labels of these samples, on the device."""

    @abstractmethod
    def loss(self, forward: Forward, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of a batch, with its graph."""

    @abstractmethod
    def optimiser_settings(self) -> dict[str, Any]:
        """Return the keyword arguments of the optimiser's class."""

    @property
    @abstractmethod
    def optimiser_class(self) -> Any:
        """The optimiser's class, one of torch's."""

    def optimiser(self, parameters: Sequence[Tensor]) -> Any:
        """Return an optimiser of these parameters."""
        return self.optimiser_class(parameters, **self.optimiser_settings())

    @property
    def loads(self) -> bool:
        """Whether samples come through a pipeline, for which a step may wait."""
        return False

    def await_input(self) -> None:  # noqa: B027 - data in memory need no waiting
        """Wait until the pipeline has the samples of the next step."""

    def flat_optimiser(self, weights: Tensor, gradient: Tensor) -> Any:
        """Return the optimiser of a model that is one vector."""
        whole = nn.Parameter(weights)
        whole.grad = gradient
        return self.optimiser([whole])


class Digits(Task):
    """A small network on handwritten digits, by plain SGD from first principles."""

    def __init__(self, training: Training, device: Any) -> None:
        self._training = training
        self._device = device
        self._digits = digits(training.precision, device)

    def __len__(self) -> int:
        return len(self._digits)

    def model(self, seed: int) -> nn.Module:
        return build(self._training, seed).to(self._device)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return images and their classes."""
        here = indices.to(self._device)
        return self._digits.images[here], self._digits.labels[here]

    def loss(self, forward: Forward, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the cross-entropy."""
        return functional.cross_entropy(forward(inputs), labels)

    @property
    def optimiser_class(self) -> Any:
        """Torch's SGD, with the same equations as `Sgd`."""
        return torch.optim.SGD

    def optimiser_settings(self) -> dict[str, Any]:
        return {"lr": self._training.learning_rate, "momentum": self._training.momentum}

    def flat_optimiser(self, weights: Tensor, gradient: Tensor) -> Any:
        """Return the optimiser with its equations written out."""
        return Sgd(weights, gradient, self._training.learning_rate, self._training.momentum)


class Sgd:
    """Moves ``weights`` by what is in ``gradient``, both changed in place by others too.

    Stochastic gradient descent with momentum, as torch.optim.SGD: v = mu v + gradient, w -= rate v.
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
