"""GPT-NeoX and Pythia (Black et al. 2022, Biderman et al. 2023), and Phi 1.5 and 2.

Attention and feed-forward of a block run in parallel on the same input, and are added to it. Part
of each head has rotary positions, all layers have biases, and the output layer is not tied.
NeoX-20B has 20,554,567,680 parameters. Phi has one norm for both, separate queries, keys and
values, and an output bias.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model


def neox(
    name: str,
    blocks: int,
    width: int,
    heads: int,
    words: int,
    sequence_length: int,
    *,
    inner: int | None = None,
    fused: bool = True,
) -> Model:
    """Build a decoder of ``blocks`` blocks over ``sequence_length`` tokens, with its loss."""
    b = Builder((sequence_length,))
    b.embedding("embed_in", words, width)
    for block in range(blocks):
        layer = f"layers.{block}"
        b.layer_norm(f"{layer}.input_layernorm")
        b.linear(f"{layer}.attention.query_key_value", 3 * width)
        _attention(b, f"{layer}.attention", heads, width, fused)
        b.layer_norm(f"{layer}.post_attention_layernorm")
        _feed_forward(b, f"{layer}.mlp", inner or 4 * width)
        # One sum of the input and both outputs.
        b.add(f"{layer}.add", terms=3, kept=True)
    b.layer_norm("final_layer_norm")
    b.linear("embed_out", words, bias=False, kept=False)
    b.cross_entropy("loss")
    return b.build(name, f"{sequence_length} tokens")


def phi(
    name: str,
    blocks: int,
    width: int,
    heads: int,
    words: int,
    sequence_length: int,
    *,
    inner: int | None = None,
    fused: bool = True,
) -> Model:
    """Build a decoder with one norm per block, three products for attention, and an output bias."""
    b = Builder((sequence_length,))
    b.embedding("embed_tokens", words, width)
    for block in range(blocks):
        layer = f"layers.{block}"
        b.layer_norm(f"{layer}.input_layernorm")
        for part in ("q_proj", "k_proj", "v_proj"):
            b.linear(f"{layer}.self_attn.{part}", width)
        _attention(b, f"{layer}.self_attn", heads, width, fused)
        _feed_forward(b, f"{layer}.mlp", inner or 4 * width)
        b.add(f"{layer}.add", terms=3, kept=True)
    b.layer_norm("final_layernorm")
    b.linear("lm_head", words, kept=False)
    b.cross_entropy("loss")
    return b.build(name, f"{sequence_length} tokens")


def _attention(b: Builder, name: str, heads: int, width: int, fused: bool) -> None:
    tokens = b.shape[0]
    b.shape = (tokens, 2 * width)  # queries and keys
    b.activation(f"{name}.rotary", kept=True)
    b.shape = (tokens, width)
    (b.fused_attention if fused else b.attention)(name, heads)
    b.linear(f"{name}.dense", width, kept=False)


def _feed_forward(b: Builder, name: str, inner: int) -> None:
    width = b.shape[1]
    b.linear(f"{name}.dense_h_to_4h", inner)
    b.activation(f"{name}.gelu", kept=True)
    b.linear(f"{name}.dense_4h_to_h", width, kept=False)
