"""GPT-2 and GPT-3 (Radford et al. 2019, Brown et al. 2020).

The output layer is tied to the token embedding. Per sample of T tokens, n blocks of width d and V
words, forward takes 2 T (12 n d^2 + V d) + 4 n T^2 d FLOP. GPT-2 small has 124,439,808 parameters,
GPT-3 174.6 G. Unless ``fused``, attention materialises the scores, as it did then.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model

_WORDS = 50257


def gpt(
    name: str,
    blocks: int,
    width: int,
    heads: int,
    sequence_length: int,
    *,
    positions: int,
    words: int = _WORDS,
    inner: int | None = None,
    tied: bool = True,
    fused: bool = False,
) -> Model:
    """Build a decoder and its loss over ``sequence_length`` tokens, at most ``positions``."""
    b = Builder((sequence_length,))
    b.embedding("wte", words, width)
    b.embedding("wpe", positions, width)
    b.add("add", kept=True)
    for block in range(blocks):
        _block(b, f"h.{block}", heads, inner or 4 * width, fused)
    b.layer_norm("ln_f")
    # The loss keeps its result, not the logits.
    b.linear("lm_head", words, bias=False, tied=tied, kept=False)
    b.cross_entropy("loss")
    return b.build(name, f"{sequence_length} tokens")


def _block(b: Builder, name: str, heads: int, inner: int, fused: bool) -> None:
    tokens, width = b.shape
    b.layer_norm(f"{name}.ln_1")
    b.linear(f"{name}.attn.c_attn", 3 * width)
    b.shape = (tokens, width)  # queries, keys and values, concatenated
    (b.fused_attention if fused else b.attention)(f"{name}.attn", heads)
    # Backward of dropout (whose mask is left out) and of a sum does not need this output.
    b.linear(f"{name}.attn.c_proj", width, kept=False)
    _residual(b, f"{name}.attn")
    b.layer_norm(f"{name}.ln_2")
    b.linear(f"{name}.mlp.c_fc", inner)
    b.activation(f"{name}.mlp.gelu", kept=True)
    b.linear(f"{name}.mlp.c_proj", width, kept=False)
    _residual(b, f"{name}.mlp")


def _residual(b: Builder, name: str) -> None:
    b.activation(f"{name}.dropout")
    b.add(f"{name}.add", kept=True)
