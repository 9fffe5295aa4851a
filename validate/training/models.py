"""Two small networks for 8 x 8 images: convolutions, and attention.

Neither depends on its batch (no batch norm, no dropout), so the gradient of a batch is the mean of
its samples' gradients, and workers on equal shards can equal one process exactly.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

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
        self.register_buffer("places", positions(SIDE, width))
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
        tokens = self.embed(images.squeeze(1)) + self.places
        query, key, value = self.query_key_value(self.before_attention(tokens)).chunk(3, dim=-1)
        attended = functional.scaled_dot_product_attention(query, key, value)
        tokens = tokens + self.mix(attended)
        tokens = tokens + self.feed_forward(self.before_feed_forward(tokens))
        return self.classify(tokens.mean(dim=1))


def positions(tokens: int, width: int) -> Tensor:
    """Return the sines of each token's position at ``width`` frequencies from 1 to 1 / 10,000.

    After Vaswani et al., NIPS 2017.
    """
    frequencies = torch.exp(-math.log(10_000.0) * torch.arange(width) / width)
    places = torch.arange(tokens)[:, None]
    return torch.sin(places * frequencies)
