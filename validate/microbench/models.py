"""The models with which layers, optimisers and learners are measured.

Two small built-in ones, the catalogue's, or a factory of your own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from dpsim.base.errors import DpsimError
from dpsim.workload import MODELS, WorkloadConfig, check_factory
from validate.microbench.settings import Settings
from validate.microbench.software import images, laid_out
from validate.ranks.processes import World
from validate.twins import Subject, factory_subject, subject_of

_TOKENS, _WIDTH, _VOCABULARY = 64, 128, 1000
_HEADS = 4


def small_cnn() -> Any:
    """Return a convolutional network for 3 x 32 x 32 images and 10 classes: 0.3 M parameters."""
    blocks = [
        part
        for entering, leaving in ((3, 32), (32, 64), (64, 128))
        for part in _block(entering, leaving)
    ]
    return nn.Sequential(
        *blocks,
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 384),
        nn.ReLU(),
        nn.Linear(384, 10),
    )


def _block(entering: int, leaving: int) -> tuple[Any, ...]:
    return (
        nn.Conv2d(entering, leaving, 3, padding=1, bias=False),
        nn.BatchNorm2d(leaving),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


class TransformerBlock(nn.Module):
    """Attention of 4 heads, then a perceptron, each with a residual and normalised before."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(_WIDTH), nn.LayerNorm(_WIDTH)
        self.query_key_value, self.output = nn.Linear(_WIDTH, 3 * _WIDTH), nn.Linear(_WIDTH, _WIDTH)
        self.perceptron = nn.Sequential(
            nn.Linear(_WIDTH, 4 * _WIDTH), nn.GELU(), nn.Linear(4 * _WIDTH, _WIDTH)
        )

    def forward(self, x: Any) -> Any:
        """Return a tensor of the same shape, (samples, tokens, width)."""
        samples, tokens, width = x.shape
        each = width // _HEADS
        projected = self.query_key_value(self.norm1(x)).view(samples, tokens, 3, _HEADS, each)
        # Each (samples, heads, tokens, each).
        query, key, value = projected.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) * each**-0.5
        attended = scores.softmax(-1) @ value
        attended = attended.transpose(1, 2).reshape(samples, tokens, width)
        x = x + self.output(attended)
        return x + self.perceptron(self.norm2(x))


class SmallTransformer(nn.Module):
    """Two transformer blocks of width 128 on 64 tokens, to predict the next of 1,000 tokens.

    0.7 million parameters.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(_VOCABULARY, _WIDTH)
        self.places = nn.Parameter(torch.zeros(_TOKENS, _WIDTH))
        self.blocks = nn.Sequential(TransformerBlock(), TransformerBlock())
        self.head = nn.Linear(_WIDTH, _VOCABULARY)

    def forward(self, tokens: Any) -> Any:
        """Return the scores of every next token, (samples, 64, 1000)."""
        return self.head(self.blocks(self.tokens(tokens) + self.places))


BUILT_IN = {
    "small-cnn": Subject("small-cnn", small_cnn, (3, 32, 32), "float32"),
    "small-transformer": Subject(
        "small-transformer", SmallTransformer, (_TOKENS,), "int64", _VOCABULARY
    ),
}


def measured_here(
    measured: Subject, batch_size: int, world: World, settings: Settings
) -> tuple[Any, Any]:
    """Return the module and a batch on this rank's device, in the requested layout."""
    module = laid_out(measured.module(world.device), settings)
    return module, images(measured.batch(batch_size, world.device), settings)


FACTORY_OF = {
    "small-cnn": f"{__name__}:small_cnn",
    "small-transformer": f"{__name__}:SmallTransformer",
}
"""The scenarios' names of the built-in models."""


def subject(settings: Settings) -> Subject:
    """Return the model that ``--model`` names.

    Raises DpsimError for an unknown name, or a factory without ``--input``.
    """
    if settings.model in BUILT_IN:
        return BUILT_IN[settings.model]
    if settings.model in MODELS:
        twin = subject_of(WorkloadConfig(model=settings.model, batch_per_gpu=1))
        if twin is None:
            raise DpsimError(
                f"--model must be one that torch can build here, but got {settings.model!r}"
            )
        return twin
    if ":" not in settings.model:
        raise DpsimError(
            f"--model must be {', '.join(BUILT_IN)}, a model of the catalogue or "
            f"package.module:factory, but got {settings.model!r}"
        )
    check_factory(settings.model)
    if not settings.input:
        raise DpsimError(
            f"--input must say the shape of one sample for {settings.model}, such as 3,224,224"
        )
    return factory_subject(settings.model, settings.input, settings.input_type)
