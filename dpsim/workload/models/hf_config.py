"""Models from a Hugging Face ``config.json``, for the families in this catalogue, in any size."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.workload.layer import Model
from dpsim.workload.models.bert import bert
from dpsim.workload.models.built import ATTENTION_OF, Attention, Images, Tokens
from dpsim.workload.models.gpt import gpt
from dpsim.workload.models.llama import llama
from dpsim.workload.models.mamba import mamba
from dpsim.workload.models.neox import neox, phi
from dpsim.workload.models.vit import vit
from dpsim.workload.profile import read_file

_LONG = 4096  # default tokens of models that accept more
_MOST = 2**40  # of any size: larger ones are typing errors
_MOST_LAYERS = 2_000  # the deepest known models have a few hundred


class _Sizes:
    """The keys of a configuration, each validated when it is read."""

    def __init__(self, values: Mapping[str, Any], source: str) -> None:
        self._values = values
        self._source = source

    def problem(self, rule: str) -> DpsimError:
        return DpsimError(f"{self._source}: {rule}")

    def __getitem__(self, key: str) -> int:
        if self._values.get(key) is None:
            raise self.problem(f"{key} is missing")
        return self.get(key, 0)

    def get(self, key: str, default: int) -> int:
        value = self._values.get(key)
        if value is None:
            return default
        # JSON's true is an int in Python.
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST:
            raise self.problem(f"{key} must be a positive integer, but got {value!r}")
        if "layer" in key and value > _MOST_LAYERS:
            raise self.problem(f"{key} must be at most {_MOST_LAYERS:,}, but got {value:,}")
        return value

    def is_auto(self, key: str) -> bool:
        """Return whether the library chooses the value: left out, or "auto"."""
        return bool(self._values.get(key, "auto") == "auto")

    def flag(self, key: str, default: bool) -> bool:
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            raise self.problem(f"{key} must be true or false, but got {value!r}")
        return value

    def attention(self) -> Attention | None:
        """Return the attention of ``attn_implementation``, or None if it is not given."""
        value = self._values.get("attn_implementation", self._values.get("_attn_implementation"))
        if value is None:
            return None
        if value not in ATTENTION_OF:
            raise self.problem(
                f"attn_implementation must be one of {', '.join(ATTENTION_OF)}, but got {value!r}"
            )
        return ATTENTION_OF[value]

    def divided(self, width: str, heads: str) -> tuple[int, int]:
        """Return width and number of heads. Raises DpsimError unless heads divide the width."""
        if self[width] % self[heads]:
            raise self.problem(
                f"{width} must be a multiple of {heads}, but got {self[width]} and {self[heads]}"
            )
        return self[width], self[heads]

    def classes(self) -> int:
        """Return the number of a classifier's classes; the library's default is two."""
        labels = self._values.get("id2label")
        return len(labels) if isinstance(labels, dict) and labels else self.get("num_labels", 2)


def _bert_like(
    build: Callable[..., Model], name: str, sizes: _Sizes, *words: int, usual: int, **more: int
) -> Tokens:
    """Return the entry of a model with BERT's keys; ``usual`` is its default length."""
    width, heads = sizes.divided("hidden_size", "num_attention_heads")
    longest = sizes["max_position_embeddings"]
    shape = (sizes["num_hidden_layers"], width, heads, *words)
    factory = partial(build, name, *shape, inner=sizes["intermediate_size"], **more)
    attention = sizes.attention()
    return Tokens(factory, min(usual, longest), longest, fusible=True, attention=attention)


def _bert(name: str, sizes: _Sizes) -> Tokens:
    return _bert_like(
        bert,
        name,
        sizes,
        # Pre-training takes most of its steps at 128 tokens (Devlin et al. 2019, appendix A.2).
        usual=128,
        positions=sizes["max_position_embeddings"],
        words=sizes["vocab_size"],
        segments=sizes.get("type_vocab_size", 2),
    )


def _gpt2(name: str, sizes: _Sizes) -> Tokens:
    width, heads = sizes.divided("n_embd", "n_head")
    longest = sizes["n_positions"]
    factory = partial(
        gpt,
        name,
        sizes["n_layer"],
        width,
        heads,
        positions=longest,
        words=sizes["vocab_size"],
        # Null in most configurations.
        inner=sizes.get("n_inner", 4 * width),
        tied=sizes.flag("tie_word_embeddings", True),
    )
    return Tokens(factory, longest, longest, fusible=True, attention=sizes.attention())


def _llama(
    name: str,
    sizes: _Sizes,
    *,
    tied: bool = False,
    head: int = 0,
    windowed: bool = False,
    experts: tuple[str, str, str] | None = None,
    **more: Any,
) -> Tokens:
    """Return the entry of a model like Llama; ``more`` are fields of `llama.Llama`.

    ``tied`` and ``head`` are the family's defaults; ``windowed``: it uses sliding_window.
    ``experts`` are the keys of their number, their number per token, and their width.
    """
    width, heads = sizes["hidden_size"], sizes["num_attention_heads"]
    groups = sizes.get("num_key_value_heads", heads)
    # Heads need not divide the width if head_dim is given, as in Gemma and Qwen 3.
    head_width = (
        sizes.get("head_dim", head)
        or sizes.divided("hidden_size", "num_attention_heads")[0] // heads
    )
    if experts is not None:
        more["experts"] = (sizes[experts[0]], sizes[experts[1]])
    if heads % groups:
        raise sizes.problem(
            f"num_attention_heads must be a multiple of num_key_value_heads, but got {heads} and "
            f"{groups}"
        )
    for unsupported in ("attention_bias", "mlp_bias"):
        if sizes.flag(unsupported, False):
            raise sizes.problem(f"{unsupported} must be false: such biases are not modelled")
    factory = partial(
        llama,
        name,
        sizes["num_hidden_layers"],
        width,
        heads,
        sizes["intermediate_size" if experts is None else experts[2]],
        groups=groups,
        words=sizes["vocab_size"],
        tied=sizes.flag("tie_word_embeddings", tied),
        head=head_width,
        window=sizes.get("sliding_window", 0) or None if windowed else None,
        **more,
    )
    longest = sizes["max_position_embeddings"]
    stated = sizes.attention()
    return Tokens(factory, min(_LONG, longest), longest, fusible=True, attention=stated)


def _parallel_blocks(build: Callable[..., Model], name: str, sizes: _Sizes) -> Tokens:
    """Return the entry of a model whose blocks compute attention and feed-forward in parallel."""
    return _bert_like(build, name, sizes, sizes["vocab_size"], usual=_LONG)


def _mamba(name: str, sizes: _Sizes) -> Tokens:
    width, auto = sizes["hidden_size"], sizes.is_auto("time_step_rank")
    if sizes.flag("use_bias", False):
        raise sizes.problem("use_bias must be false: such biases are not modelled")
    factory = partial(
        mamba,
        name,
        sizes["num_hidden_layers"],
        width,
        widened=sizes.get("intermediate_size", sizes.get("expand", 2) * width),
        state=sizes.get("state_size", 16),
        rank=None if auto else sizes["time_step_rank"],
        kernel=sizes.get("conv_kernel", 4),
        words=sizes["vocab_size"],
        tied=sizes.flag("tie_word_embeddings", True),
    )
    # Trained on 2,048 tokens; a state-space model has no longest sequence.
    return Tokens(factory, 2048, 2**20)


def _vit(name: str, sizes: _Sizes) -> Images:
    width, heads = sizes.divided("hidden_size", "num_attention_heads")
    # For its error: patches must cover the image exactly.
    sizes.divided("image_size", "patch_size")
    return Images(
        partial(
            vit,
            name,
            sizes["num_hidden_layers"],
            width,
            heads,
            patch=sizes["patch_size"],
            image=sizes["image_size"],
            inner=sizes["intermediate_size"],
            classes=sizes.classes(),
            channels=sizes.get("num_channels", 3),
        ),
        fusible=True,
        attention=sizes.attention(),
    )


_GEMMA: dict[str, Any] = {"tied": True, "head": 256}

_FAMILIES: dict[str, Callable[[str, _Sizes], Images | Tokens]] = {
    "bert": _bert,
    "gemma": partial(_llama, **_GEMMA),
    "gemma2": partial(_llama, **_GEMMA, windowed=True, norms="both", global_every=2),
    "gemma3_text": partial(
        _llama, **_GEMMA, windowed=True, norms="both", global_every=6, query_norms="head"
    ),
    "gpt2": _gpt2,
    "gpt_neox": partial(_parallel_blocks, neox),
    "llama": _llama,
    "mamba": _mamba,
    "mistral": partial(_llama, windowed=True),
    "mixtral": partial(
        _llama,
        windowed=True,
        experts=("num_local_experts", "num_experts_per_tok", "intermediate_size"),
    ),
    "olmo": partial(_llama, norm_weights=False),
    "olmo2": partial(_llama, norms="after", query_norms="width"),
    "phi": partial(_parallel_blocks, phi),
    "phi3": partial(_llama, windowed=True, packed=True),
    "qwen2": partial(_llama, biases=True),
    "qwen3": partial(_llama, head=128, query_norms="head"),
    "qwen3_moe": partial(
        _llama,
        query_norms="head",
        experts=("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
    ),
    "vit": _vit,
}


def from_config(path: str | os.PathLike[str]) -> Images | Tokens:
    """Return the model of the configuration at ``path``, as an entry of the catalogue.

    Raises DpsimError, with the file's name, for invalid JSON, an unknown model_type, and keys that
    are missing or invalid.
    """
    source = os.fspath(path)
    try:
        values = json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DpsimError):
            raise
        raise DpsimError(f"{source}: must be JSON, but: {error}") from None
    if not isinstance(values, dict):
        raise DpsimError(f'{source}: must be a JSON object, such as {{"model_type": "llama"}}')
    family = values.get("model_type")
    if family is None:
        raise DpsimError(f"{source}: model_type is missing (known: {', '.join(_FAMILIES)})")
    if not isinstance(family, str):
        raise DpsimError(f"{source}: {UnknownNameError('model_type', family, _FAMILIES)}")
    name = values.get("_name_or_path")
    # 200 is the limit of a profile's name.
    name = (name if isinstance(name, str) and name else family)[:200]
    if family in _FAMILIES:
        return _FAMILIES[family](name, _Sizes(values, source))
    from dpsim.workload.models.hf_library import library_entry

    return library_entry(values, source, name, _FAMILIES)
