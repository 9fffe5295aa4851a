"""GPT-2 (Radford et al. 2019), output layer tied to the token embedding: 124,439,808 parameters in the small one.

Per sample of T tokens, n blocks of width d and V words, forward takes 2 T (12 n d^2 + V d) + 4 n T^2 d FLOP.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model

LONGEST = 1024
_WORDS = 50257


def gpt2(name: str, blocks: int, width: int, heads: int, sequence_length: int) -> Model:
    """A decoder of ``blocks`` blocks over ``sequence_length`` tokens (at most 1,024), with the loss over its words."""
    b = Builder((sequence_length,))
    b.embedding("wte", _WORDS, width)
    b.embedding("wpe", LONGEST, width)
    b.add("add", kept=True)
    for block in range(blocks):
        _block(b, f"h.{block}", width, heads)
    b.layer_norm("ln_f")
    b.linear("lm_head", _WORDS, tied=True, kept=False)
    b.activation("loss", kept=True)
    return b.build(name, f"{sequence_length} tokens")


def _block(b: Builder, name: str, width: int, heads: int) -> None:
    b.layer_norm(f"{name}.ln_1")
    b.linear(f"{name}.attn.c_attn", 3 * width)
    b.shape = (b.shape[0], width)  # queries, keys and values, side by side
    b.attention(f"{name}.attn", heads)
    b.linear(f"{name}.attn.c_proj", width, kept=False)
    _residual(b, f"{name}.attn")
    b.layer_norm(f"{name}.ln_2")
    b.linear(f"{name}.mlp.c_fc", 4 * width)
    b.activation(f"{name}.mlp.gelu", kept=True)
    b.linear(f"{name}.mlp.c_proj", width, kept=False)
    _residual(b, f"{name}.mlp")


def _residual(b: Builder, name: str) -> None:
    b.activation(f"{name}.dropout")
    b.add(f"{name}.add", kept=True)
