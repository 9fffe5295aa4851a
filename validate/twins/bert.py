"""BERT in torch: three embeddings, norms after, a pooler on the first token."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from validate.twins.attention import attend, split


class Block(nn.Module):
    """Attention, then a perceptron, each with a residual and normalised after."""

    def __init__(self, width: int, heads: int, inner: int, *, fused: bool) -> None:
        super().__init__()
        self.heads = heads
        self.fused = fused
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.attention_output = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width)
        self.intermediate = nn.Linear(width, inner)
        self.output = nn.Linear(inner, width)
        self.output_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape, (batch, tokens, width)."""
        heads = (split(part(x), self.heads) for part in (self.query, self.key, self.value))
        attended = attend(*heads, fused=self.fused, causal=False)
        x = self.attention_norm(x + self.attention_output(attended))
        return self.output_norm(x + self.output(functional.gelu(self.intermediate(x))))


class Bert(nn.Module):
    """Maps tokens (batch, tokens) to the pooled first one (batch, width)."""

    def __init__(
        self,
        blocks: int,
        width: int,
        heads: int,
        *,
        positions: int,
        words: int,
        segments: int,
        inner: int | None,
        fused: bool,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(positions, width)
        self.segments = nn.Embedding(segments, width)
        self.norm = nn.LayerNorm(width)
        made = (Block(width, heads, inner or 4 * width, fused=fused) for _ in range(blocks))
        self.blocks = nn.Sequential(*made)
        self.pooler = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the pooler's output for the first token."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        # All in one segment: which one does not affect the time.
        segments = self.segments(torch.zeros_like(tokens))
        x = self.norm(self.words(tokens) + self.positions(places) + segments)
        return torch.tanh(self.pooler(self.blocks(x)[:, 0]))
