"""Models that the transformers library builds from a configuration, in a separate process.

A ``config.json`` is untrusted: a key may name a repository to fetch, a kernel to load, a class to
create. Therefore only the library's own configurations and models are allowed. Texts and tables are
accepted only for keys that the configuration's class reads, and may not name external resources.
The process has no network, starts no program, writes no file, and cannot import packages that load
external resources.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.workload.layer import Model
from dpsim.workload.models.built import ATTENTION_OF
from dpsim.workload.torch_factory import explained, import_torch

_USUAL = 4096  # default tokens of models that accept more
_LONGEST = 2**20  # if the configuration gives no limit
_SECOND = 16_000  # samples of sound
_SOUND = "samples of sound"

# The library's classes of models, the most likely ones in training first.
_ENCODER_DECODER = ("AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq", "AutoModel")
_OTHER = (
    "AutoModelForMaskedLM",
    "AutoModelForCausalLM",
    "AutoModelForImageClassification",
    "AutoModel",
)

# Classes that return a loss when given labels of the tokens' shape.
_LABELLED = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration")

_AUTO = "transformers.models.auto"

# Packages that load external resources by name.
_BLOCKED_PACKAGES = ("kernels", "timm", "detectron2")
# An impossible cache folder: its files would be untrusted too.
_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_HOME": f"{os.devnull}/none", "USE_HUB_KERNELS": "NO"}
_BLOCKED_EVENTS = re.compile(
    r"(socket|subprocess|shutil|urllib|ftplib)\..*"
    r"|os\.(system|exec|fork|forkpty|spawn|posix_spawn|startfile|remove|rename|rmdir|mkdir|link"
    r"|symlink|truncate|chmod|chown)"
)
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_EXTERNAL_FAMILIES = ("timm_backbone", "timm_wrapper")
_EXTERNAL_KEYS = ("backbone", "use_timm_backbone", "use_pretrained_backbone")
# Paths, addresses and repositories match this, and no setting does.
_EXTERNAL_NAME = re.compile(r"[/\\:\s]|.{101}")
# Keys of the configurations' base class that change a model.
_BASE_KEYS = (
    *("model_type", "num_labels", "is_encoder_decoder", "chunk_size_feed_forward"),
    *("tie_word_embeddings", "rope_parameters", "rope_theta", "rope_scaling"),
    "partial_rotary_factor",
)
_ATTENTION_KEYS = ("attn_implementation", "_attn_implementation")

Inputs = dict[str, tuple[tuple[int, ...], str]]


def prepare() -> None:
    """Load the library, and block what its process does not need. This cannot be undone."""
    os.environ.update(_OFFLINE)
    for name in _BLOCKED_PACKAGES:
        sys.modules[name] = None  # type: ignore[assignment]  # as if it were not installed
    # Load its tables now, while imports may still write files.
    importlib.import_module("torch")
    importlib.import_module(f"{_AUTO}.modeling_auto")
    tempfile.gettempdir()  # tempfile writes a file to find the folder, which torch asks for
    sys.dont_write_bytecode = True
    sys.addaudithook(_audit)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    writes = event == "open" and isinstance(args[0], (str, bytes)) and args[2] & _WRITE_FLAGS
    if (writes and os.fsdecode(args[0]) != os.devnull) or _BLOCKED_EVENTS.fullmatch(event):
        raise PermissionError(f"no configuration may ask for {event}")


def described(values: Mapping[str, Any], source: str) -> tuple[str, int, int]:
    """Return the model's main input, and its default and longest length. Raises DpsimError."""
    config = _config(values, source)
    main = _main_input(_model_class(config, values, source))
    if main == "input_values":
        return main, 10 * _SECOND, 60 * _SECOND
    longest = _first(config, "max_position_embeddings", "max_target_positions", "n_positions")
    longest = longest or _LONGEST
    return main, min(_USUAL, longest), longest


def traced(values: Mapping[str, Any], source: str, name: str, length: int | None) -> Model:
    """Return the model, called ``name``, for samples of ``length``. Raises DpsimError."""
    from dpsim.workload.torch_trace import trace_call

    torch = import_torch()
    config = _config(values, source)
    kind = _model_class(config, values, source)
    main = _main_input(kind)
    if length is None:
        height, width = _side(config)
        sample = f"{height}x{width} image"
    else:
        sample = f"{length} {unit(main)}"
        if getattr(config, "is_encoder_decoder", False):
            sample += f" and {length} of the decoder"
    with explained(source, "cannot be built and traced without weights"):
        # On the meta device a model takes no memory.
        with torch.device("meta"):
            module = kind(config)
        module = module.to("meta").train()
        model = trace_call(module, _inputs(config, kind, length), name, sample)
    return replace(model, notes=(*model.notes, *_override_notes(values, config)))


def _override_notes(values: Mapping[str, Any], config: Any) -> Iterator[str]:
    """Yield a note for each setting of ``values`` that the library overrides."""
    for key in _keys(type(config)):
        requested = values.get(key)
        taken = getattr(config, key, requested)
        if isinstance(requested, bool) and isinstance(taken, bool) and taken != requested:
            yield (
                f"ignored: {key}: {str(requested).lower()} in the configuration: the transformers "
                f"library builds {config.model_type} with {str(taken).lower()}"
            )


def unit(main: str) -> str:
    """Return the unit of a sample's length, for a model with that main input."""
    return _SOUND if main == "input_values" else "tokens"


def _config(values: Mapping[str, Any], source: str) -> Any:
    """Return the library's configuration, with fused attention unless ``values`` ask for eager."""
    kind = _config_class(values["model_type"], source)
    with explained(source, "is not a configuration"):
        kept = _allowed(values, kind, source)
        chosen = next((values[key] for key in _ATTENTION_KEYS if values.get(key) is not None), None)
        if chosen is not None:
            if not isinstance(chosen, str) or chosen not in ATTENTION_OF:
                raise DpsimError(
                    f"{source}: attn_implementation must be one of {', '.join(ATTENTION_OF)}, "
                    f"but got {chosen!r}"
                )
            # A trace treats all fused attention the same.
            kept[_ATTENTION_KEYS[0]] = "eager" if ATTENTION_OF[chosen] == "unfused" else "sdpa"
        return kind.from_dict(kept)


def _config_class(family: object, source: str) -> Any:
    known = importlib.import_module(f"{_AUTO}.configuration_auto").CONFIG_MAPPING
    if not isinstance(family, str) or family not in known:
        raise DpsimError(f"{source}: {UnknownNameError('model_type', family, known)}")
    if family in _EXTERNAL_FAMILIES:
        raise DpsimError(f"{source}: model_type {family} takes a model from another library")
    return known[family]


def _allowed(values: Mapping[str, Any], kind: Any, source: str) -> dict[str, Any]:
    """Return the ``values`` that a configuration of class ``kind`` reads, as plain data."""
    for key in _EXTERNAL_KEYS:
        if values.get(key):
            raise DpsimError(
                f"{source}: {key} takes a model from elsewhere, which a configuration may not; "
                "describe it in backbone_config"
            )
    base_keys = _keys(_base()) - {*_BASE_KEYS}
    known = _keys(kind) - base_keys
    kept = {
        key: _checked(value, key, kind, source)
        for key, value in values.items()
        # Models read further keys; a number cannot name a resource.
        if key in known or (_is_number(value) and key not in base_keys and not key.startswith("_"))
    }
    if isinstance(labels := values.get("id2label"), dict):
        kept["num_labels"] = len(labels)
    return kept


def _is_number(value: Any) -> bool:
    """Return whether the value is a number, or a list of them."""
    return (
        all(map(_is_number, value))
        if isinstance(value, list)
        else not isinstance(value, (str, dict))
    )


def _checked(value: Any, key: str, kind: Any, source: str) -> Any:
    """Return ``value``. Raises DpsimError if it might name an external resource."""
    if isinstance(value, str) and _EXTERNAL_NAME.search(value):
        raise DpsimError(f"{source}: {key} must be a setting's name, but got {value!r}")
    if isinstance(value, list):
        return [_checked(each, key, kind, source) for each in value]
    if isinstance(value, dict):
        own = _nested_class(value, key, kind, source)
        if own is not None:
            return _allowed(value, own, source)
        base_keys = _keys(_base()) - {*_BASE_KEYS}
        return {
            name: _checked(each, name, None, source)
            for name, each in value.items()
            if name not in base_keys
        }
    return value


def _nested_class(value: Mapping[str, Any], key: str, kind: Any, source: str) -> Any:
    """Return the class of the nested configuration at ``key``, or None for a plain table."""
    if value.get("model_type") is not None:
        return _config_class(value["model_type"], source)
    own = getattr(kind, "sub_configs", {}).get(key)
    return own if isinstance(own, type) and issubclass(own, _base()) else None


def _base() -> Any:
    return importlib.import_module("transformers").PretrainedConfig


def _keys(kind: Any) -> frozenset[str]:
    """Return the keys that the class ``kind`` reads, of its base class only `_BASE_KEYS`."""
    found = {*_BASE_KEYS, *getattr(kind, "attribute_map", {})}
    bases = kind.__mro__
    for each in bases[: bases.index(_base()) or 1]:
        found.update(vars(each).get("__annotations__", {}))
        for name in ("__init__", "__post_init__"):
            if name not in vars(each):
                continue
            code = inspect.unwrap(vars(each)[name]).__code__
            # Arguments, and the keys that the code looks up.
            found.update(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
            found.update(const for const in code.co_consts if isinstance(const, str))
    return frozenset(found)


def _model_class(config: Any, values: Mapping[str, Any], source: str) -> Any:
    """Return the model's class: that of ``architectures``, or the library's default."""
    library = importlib.import_module("transformers")
    named = values.get("architectures")
    if isinstance(named, list) and named and named[0] in _models_of(values["model_type"]):
        return getattr(library, named[0])
    for auto in _ENCODER_DECODER if getattr(config, "is_encoder_decoder", False) else _OTHER:
        # Maps a configuration's class to one or several model classes.
        mapping = getattr(library, auto)._model_mapping
        if type(config) in mapping:
            found = mapping[type(config)]
            return found[0] if isinstance(found, tuple) else found
    raise DpsimError(f"{source}: {type(config).__name__} has no model in the library")


def _models_of(family: str) -> Iterator[str]:
    """Yield the names of the library's model classes of a family."""
    for name, table in vars(importlib.import_module(f"{_AUTO}.modeling_auto")).items():
        if name.startswith("MODEL_") and name.endswith("_MAPPING_NAMES"):
            found = table.get(family, ())
            yield from (found,) if isinstance(found, str) else found


def _main_input(kind: Any) -> str:
    """Return the name of the model's main input: tokens, pixels or sound."""
    return str(getattr(kind, "main_input_name", "input_ids"))


def _inputs(config: Any, kind: Any, length: int | None) -> Inputs:
    """Return each input of the forward pass, as the shape and data type of a sample."""
    main = _main_input(kind)
    if main == "pixel_values":
        return {main: ((_first(config, "num_channels") or 3, *_side(config)), "float32")}
    assert length is not None
    tokens = ((length,), "int64")
    inputs: Inputs = {main: tokens}
    if main == "input_values":
        return {main: ((length,), "float32")}
    if main == "input_features":
        # The encoder's second convolution has stride 2.
        frames = 2 * config.max_source_positions
        inputs[main] = ((config.num_mel_bins, frames), "float32")
    if getattr(config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = tokens
    if kind.__name__.endswith(_LABELLED):
        inputs["labels"] = tokens
    return inputs


def _first(config: Any, *keys: str) -> int | None:
    """Return the first value of ``keys`` that is a positive integer."""
    values = [getattr(config, key, None) for key in keys]
    return next((value for value in values if isinstance(value, int) and value > 0), None)


def _side(config: Any) -> tuple[int, int]:
    """Return height and width of an image, by default 224."""
    size = getattr(config, "image_size", None) or 224
    return (size[0], size[1]) if isinstance(size, (list, tuple)) else (size, size)
