"""GPT-2 and GPT-3 in torch: learnt positions, norms before, the output tied to the embedding."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from validate.twins.attention import attend, split


class Block(nn.Module):
    """Attention, then a perceptron, each with a residual and normalised before."""

    def __init__(self, width: int, heads: int, inner: int, *, fused: bool) -> None:
        super().__init__()
        self.heads = heads
        self.fused = fused
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.attn_proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.c_fc = nn.Linear(width, inner)
        self.mlp_proj = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape, (batch, tokens, width)."""
        heads = (split(part, self.heads) for part in self.c_attn(self.ln_1(x)).chunk(3, -1))
        x = x + self.attn_proj(attend(*heads, fused=self.fused, causal=True))
        return x + self.mlp_proj(functional.gelu(self.c_fc(self.ln_2(x))))


class Gpt(nn.Module):
    """Maps tokens (batch, tokens) to scores of the next ones (batch, tokens, words)."""

    def __init__(
        self,
        blocks: int,
        width: int,
        heads: int,
        *,
        positions: int,
        words: int,
        inner: int | None,
        tied: bool,
        fused: bool,
    ) -> None:
        super().__init__()
        self.wte = nn.Embedding(words, width)
        self.wpe = nn.Embedding(positions, width)
        made = (Block(width, heads, inner or 4 * width, fused=fused) for _ in range(blocks))
        self.blocks = nn.Sequential(*made)
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, words, bias=False)
        # One tensor for both: its gradient is the sum of both uses, and is sent once.
        if tied:
            self.lm_head.weight = self.wte.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.lm_head(self.ln_f(self.blocks(self.wte(tokens) + self.wpe(places))))
