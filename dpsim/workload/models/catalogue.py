"""The models known by name, built when asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from dpsim.errors import DpsimError, UnknownNameError
from dpsim.registry import Registry
from dpsim.workload.layer import Model
from dpsim.workload.models import alexnet, bert, gpt, inception, resnet, vgg


@dataclass(frozen=True, slots=True)
class Images:
    """A model of images: nothing to choose."""

    factory: Callable[[], Model]

    def check(self, sequence_length: int | None) -> None:
        """Raises DpsimError when a sequence length is asked for."""
        if sequence_length is not None:
            raise DpsimError(f"must be left out for a model of images, but got {sequence_length}")

    def build(self, sequence_length: int | None = None) -> Model:
        """The model; raises DpsimError when a sequence length is asked for."""
        self.check(sequence_length)
        return self.factory()


@dataclass(frozen=True, slots=True)
class Tokens:
    """A model of token sequences: the length when none is asked for, and the longest that its positions allow."""

    factory: Callable[[int], Model]
    usual: int
    longest: int

    def check(self, sequence_length: int | None) -> None:
        """Raises DpsimError for a length that is not from 1 to the longest."""
        if sequence_length is not None and not 1 <= sequence_length <= self.longest:
            raise DpsimError(f"must be from 1 to {self.longest} tokens for this model, but got {sequence_length}")

    def build(self, sequence_length: int | None = None) -> Model:
        """The model for sequences of that length; raises DpsimError for a length that it cannot take."""
        self.check(sequence_length)
        return self.factory(self.usual if sequence_length is None else sequence_length)


def _bert(name: str, blocks: int, width: int, heads: int) -> Tokens:
    return Tokens(partial(bert.bert, name, blocks, width, heads), 128, bert.LONGEST)


def _gpt2(name: str, blocks: int, width: int, heads: int) -> Tokens:
    return Tokens(partial(gpt.gpt2, name, blocks, width, heads), gpt.LONGEST, gpt.LONGEST)


MODELS: Registry[Images | Tokens] = Registry(
    "model",
    {
        "alexnet": Images(alexnet.alexnet),
        "vgg16": Images(partial(vgg.vgg, "vgg16", (2, 2, 3, 3, 3))),
        "resnet50": Images(partial(resnet.resnet, "resnet50", (3, 4, 6, 3))),
        "resnet101": Images(partial(resnet.resnet, "resnet101", (3, 4, 23, 3))),
        "resnet152": Images(partial(resnet.resnet, "resnet152", (3, 8, 36, 3))),
        "inception-v3": Images(inception.inception_v3),
        "bert-base": _bert("bert-base", 12, 768, 12),
        "bert-large": _bert("bert-large", 24, 1024, 16),
        "gpt2": _gpt2("gpt2", 12, 768, 12),
        "gpt2-medium": _gpt2("gpt2-medium", 24, 1024, 16),
        "gpt2-large": _gpt2("gpt2-large", 36, 1280, 20),
        "gpt2-xl": _gpt2("gpt2-xl", 48, 1600, 25),
    },
)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


_SPELLINGS = {_plain(name): name for name in MODELS} | {
    "gpt2small": "gpt2",
    "bertbaseuncased": "bert-base",
    "bertlargeuncased": "bert-large",
}


def canonical_name(name: str) -> str:
    """The catalogue's spelling of a model's name: ``"ResNet-50"`` is ``"resnet50"``; raises UnknownNameError."""
    try:
        return _SPELLINGS[_plain(name)]
    except KeyError:
        raise UnknownNameError("model", name, MODELS) from None


def build_model(name: str, sequence_length: int | None = None) -> Model:
    """Builds the named model; raises UnknownNameError, or DpsimError for a sequence length that it cannot take."""
    return MODELS[canonical_name(name)].build(sequence_length)
