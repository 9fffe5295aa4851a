"""The task of a run: a model, its data, its loss, and its optimiser.

The digits' task has two small networks for 8 x 8 images: convolutions, and attention. Neither
mixes samples or draws at random (no batch norm, no dropout), so the gradient of a batch is the mean
of its samples' gradients, and workers on equal shards can equal one process exactly.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpsim.studies.replay.learning import WHITE, all_digits
from validate.training.settings import Training

CLASSES = 10
SIDE = 8  # pixels


def build(training: Training, seed: int) -> nn.Module:
    """Return the model that ``training`` names, with weights drawn from ``seed``.

    The process's own random stream is left unchanged.
    """
    models = {"cnn": cnn, "transformer": Transformer}
    # Drawn on the CPU for any device: GPUs' generators give other numbers for the same seed.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = models[training.model](training.width)
    return made.to(getattr(torch, training.precision))


def cnn(width: int) -> nn.Module:
    """Return two convolutions of stride 2 and a linear layer; (batch, 1, 8, 8) to (batch, 10)."""
    return nn.Sequential(
        nn.Conv2d(1, width, kernel_size=3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, kernel_size=3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * width * (SIDE // 4) ** 2, CLASSES),
    )


class Transformer(nn.Module):
    """The rows of an image as 8 tokens, one block of attention and a feed-forward layer.

    Maps (batch, 1, 8, 8) to (batch, 10).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Linear(SIDE, width)
        # Fixed, not learnt: it has no gradient to average.
        self.register_buffer("positions", sinusoidal_positions(SIDE, width))
        self.before_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.before_feed_forward = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.classify = nn.Linear(width, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Return the scores of the classes."""
        tokens = self.embed(images.squeeze(1)) + self.positions
        query, key, value = self.query_key_value(self.before_attention(tokens)).chunk(3, dim=-1)
        attended = functional.scaled_dot_product_attention(query, key, value)
        tokens = tokens + self.mix(attended)
        tokens = tokens + self.feed_forward(self.before_feed_forward(tokens))
        return self.classify(tokens.mean(dim=1))


def sinusoidal_positions(tokens: int, width: int) -> Tensor:
    """Return the sines of each token's position at ``width`` frequencies from 1 to 1 / 10,000.

    After Vaswani et al., NIPS 2017.
    """
    frequencies = torch.exp(-math.log(10_000.0) * torch.arange(width) / width)
    position = torch.arange(tokens)[:, None]
    return torch.sin(position * frequencies)


Forward = Callable[[Tensor], Tensor]


class Task(ABC):
    """A model to train, the same for every worker.

    A step runs ``passes`` forward and backward passes on micro-batches of equal size;
    ``keeps_weights`` says whether the run's record includes the final weights.
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
        """Return the model to be sharded; its weights may be missing until `fill` draws them."""
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
    def has_input_pipeline(self) -> bool:
        """Whether samples come through a pipeline that a step may have to wait for."""
        return False

    def await_input(self) -> None:  # noqa: B027 - data in memory need no waiting
        """Wait until the pipeline has the samples of the next step."""

    def flat_optimiser(self, weights: Tensor, gradient: Tensor) -> Any:
        """Return the optimiser of a model that is one vector."""
        whole = nn.Parameter(weights)
        whole.grad = gradient
        return self.optimiser([whole])


class Digits(Task):
    """A small network on the 1,797 handwritten digits that come with dpsim, by SGD.

    ``images``: (samples, 1, 8, 8), 0 to 1. ``labels``: (samples,), 0 to 9.
    """

    def __init__(self, training: Training, device: Any = "cpu") -> None:
        self._training = training
        self._device = device
        pixels, labels = all_digits()
        dtype = getattr(torch, training.precision)
        images = torch.as_tensor(pixels, dtype=dtype, device=device) / WHITE
        self.images = images.reshape(-1, 1, 8, 8)
        self.labels = torch.as_tensor(labels, device=device)

    def __len__(self) -> int:
        return len(self.labels)

    def model(self, seed: int) -> nn.Module:
        return build(self._training, seed).to(self._device)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return images and their classes."""
        here = indices.to(self._device)
        return self.images[here], self.labels[here]

    def loss(self, forward: Forward, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the cross-entropy."""
        return functional.cross_entropy(forward(inputs), labels)

    @property
    def optimiser_class(self) -> Any:
        return torch.optim.SGD

    def optimiser_settings(self) -> dict[str, Any]:
        return {"lr": self._training.learning_rate, "momentum": self._training.momentum}
