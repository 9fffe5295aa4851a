"""Models of any ``config.json`` that the transformers library builds, traced without weights.

For families that have no builder here. The library is an extra, ``hf``.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from dpsim.base.errors import DpsimError, UnknownNameError, how_to_install
from dpsim.workload.layer import Model
from dpsim.workload.models.built import Images, Tokens

_USUAL = 4096  # tokens when none are asked for, of models that could take more
_LONGEST = 2**20  # where the configuration does not say it
_SECOND = 16_000  # samples of sound
_SOUND = "samples of sound"

# The library's kinds of models, the likeliest to be trained first.
_PAIRED = ("AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq", "AutoModel")
_SINGLE = (
    "AutoModelForMaskedLM",
    "AutoModelForCausalLM",
    "AutoModelForImageClassification",
    "AutoModel",
)

# Classes that answer with a loss where they are given labels of the tokens' shape.
_LABELLED = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration")

_FAMILY = re.compile(r"[\w.-]+")  # all names of the library are of this form
_MAPPING = "transformers.models.auto.configuration_auto"

Inputs = dict[str, tuple[tuple[int, ...], str]]


def library_entry(
    values: Mapping[str, Any], source: str, name: str, own: Iterable[str]
) -> Images | Tokens:
    """What a configuration describes that the library knows.

    Raises DpsimError where the library is missing, with the families that are built without it
    (``own``), or does not know it either.
    """
    family = values["model_type"]
    if not _FAMILY.fullmatch(family):
        raise DpsimError(f"{source}: {UnknownNameError('model_type', family, own)}")
    # Looked for without being imported, which takes seconds.
    if find_spec("transformers") is None or find_spec("torch") is None:
        raise DpsimError(
            f"{source}: {UnknownNameError('model_type', family, own)}; any other needs the "
            f"transformers library: {how_to_install('hf')}"
        )
    built = _Built(dict(values), source, name)
    config, main = built.config(), built.main_input()
    if main == "pixel_values":
        return Images(built)
    if main == "input_values":
        return Tokens(built, 10 * _SECOND, 60 * _SECOND, _SOUND)
    longest = _first(config, "max_position_embeddings", "max_target_positions", "n_positions")
    longest = longest or _LONGEST
    return Tokens(built, min(_USUAL, longest), longest)


@dataclass
class _Built:
    """Builds the model of one configuration for a sequence length, where it has one."""

    values: dict[str, Any]
    source: str
    name: str
    _config: Any = field(default=None, repr=False)

    def config(self) -> Any:
        """The library's object, with attention as the fused kernel unless it is to be eager."""
        if self._config is None:
            known = importlib.import_module(_MAPPING).CONFIG_MAPPING
            family = self.values["model_type"]
            if family not in known:
                raise DpsimError(f"{self.source}: {UnknownNameError('model_type', family, known)}")
            with self._explained("is not a configuration"):
                self._config = known[family].from_dict(self.values)
        return self._config

    def main_input(self) -> str:
        """The name of what the model is given: tokens, pixels or sound."""
        return str(getattr(self._kind(), "main_input_name", "input_ids"))

    def __call__(self, length: int | None = None) -> Model:
        from dpsim.workload.torch_factory import import_torch
        from dpsim.workload.torch_trace import trace_call

        torch = import_torch()
        with self._explained("cannot be built and traced without weights"):
            # Without weights: a model of any size takes no memory here.
            with torch.device("meta"):
                module = self._kind()(self.config())
            module = module.to("meta").train()
            return trace_call(module, self._inputs(length), self.name, self._sample(length))

    def _sample(self, length: int | None) -> str:
        if length is None:
            height, width = _side(self.config())
            return f"{height}x{width} image"
        return f"{length} {_SOUND if self.main_input() == 'input_values' else 'tokens'}"

    def _explained(self, what: str) -> Any:
        from dpsim.workload.torch_factory import explained

        return explained(self.source, what)

    def _kind(self) -> Any:
        """The class: that of ``architectures``, or the library's for its kind of model."""
        library = _library()
        named = self.values.get("architectures")
        if isinstance(named, list) and named and isinstance(named[0], str):
            kind = getattr(library, named[0], None)
            if isinstance(kind, type):
                return kind
        paired = getattr(self.config(), "is_encoder_decoder", False)
        config = type(self.config())
        for auto in _PAIRED if paired else _SINGLE:
            # The library's own table from a configuration's class to a model's, or to several of
            # them.
            mapping = getattr(library, auto)._model_mapping
            if config in mapping:
                found = mapping[config]
                return found[0] if isinstance(found, tuple) else found
        raise DpsimError(f"{self.source}: {config.__name__} has no model in the library")

    def _inputs(self, length: int | None) -> Inputs:
        """Shapes of one sample of all that the forward pass wants."""
        config, main = self.config(), self.main_input()
        if main == "pixel_values":
            return {main: ((_first(config, "num_channels") or 3, *_side(config)), "float32")}
        assert length is not None
        tokens = ((length,), "int64")
        inputs: Inputs = {main: tokens}
        if main == "input_values":
            return {main: ((length,), "float32")}
        if main == "input_features":
            # The second convolution in front of the encoder has stride 2.
            frames = 2 * config.max_source_positions
            inputs[main] = ((config.num_mel_bins, frames), "float32")
        if getattr(config, "is_encoder_decoder", False):
            inputs["decoder_input_ids"] = tokens
        if self._kind().__name__.endswith(_LABELLED):
            inputs["labels"] = tokens
        return inputs


def _library() -> Any:
    return importlib.import_module("transformers")


def _first(config: Any, *keys: str) -> int | None:
    """The first of the keys that the configuration has as a positive number."""
    values = [getattr(config, key, None) for key in keys]
    return next((value for value in values if isinstance(value, int) and value > 0), None)


def _side(config: Any) -> tuple[int, int]:
    """Height and width of an image; 224 where the configuration leaves it open."""
    size = getattr(config, "image_size", None) or 224
    return (size[0], size[1]) if isinstance(size, (list, tuple)) else (size, size)
