"""Attention of a block: fused by torch, or with explicit scores."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def split(x: Tensor, heads: int) -> Tensor:
    """Reshape (batch, tokens, width) to (batch, heads, tokens, width / heads)."""
    batch, tokens, width = x.shape
    return x.view(batch, tokens, heads, width // heads).transpose(1, 2)


def attend(query: Tensor, key: Tensor, value: Tensor, *, fused: bool, causal: bool) -> Tensor:
    """Attend with heads (batch, heads, tokens, each); returns (batch, tokens, heads x each)."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        # Grouped queries (GQA): each key and value head serves several query heads.
        key, value = (part.repeat_interleave(groups, dim=1) for part in (key, value))
    if fused:
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    else:
        # As in frameworks before fused kernels: scores of all pairs are written to memory.
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        if causal:
            tokens = scores.shape[-1]
            later = scores.new_ones(tokens, tokens).triu(1).bool()
            scores = scores.masked_fill(later, float("-inf"))
        mixed = scores.softmax(-1) @ value
    return mixed.transpose(1, 2).flatten(2)
