"""LLaMA and its like in torch: RMS norm, rotary positions, gated feed-forward, grouped keys."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from validate.twins.attention import attend, split

_BASE = 10_000.0  # of the rotary frequencies, whose values do not affect the time


class Block(nn.Module):
    """Attention over rotated heads, then the gated perceptron, each with norm and residual."""

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        *,
        groups: int,
        head: int,
        biases: bool,
        fused: bool,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.groups = groups
        self.fused = fused
        self.input_norm = nn.RMSNorm(width)
        self.q_proj = nn.Linear(width, heads * head, bias=biases)
        self.k_proj = nn.Linear(width, groups * head, bias=biases)
        self.v_proj = nn.Linear(width, groups * head, bias=biases)
        self.o_proj = nn.Linear(heads * head, width, bias=False)
        self.attention_norm = nn.RMSNorm(width)
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape, (batch, tokens, width)."""
        normal = self.input_norm(x)
        query = rotated(split(self.q_proj(normal), self.heads))
        key = rotated(split(self.k_proj(normal), self.groups))
        value = split(self.v_proj(normal), self.groups)
        x = x + self.o_proj(attend(query, key, value, fused=self.fused, causal=True))
        normal = self.attention_norm(x)
        gate = functional.silu(self.gate_proj(normal))
        return x + self.down_proj(gate * self.up_proj(normal))


def rotated(heads: Tensor) -> Tensor:
    """Rotate each head's halves by angles that grow with the token's position (Su et al. 2021)."""
    tokens, each = heads.shape[-2:]
    powers = torch.arange(0, each, 2, device=heads.device) / each
    places = torch.arange(tokens, device=heads.device)
    angles = places[:, None] * _BASE**-powers
    # Computed in float32: angles of far positions exceed half precision.
    cosine = angles.cos().to(heads.dtype)
    sine = angles.sin().to(heads.dtype)
    # Halves, like Hugging Face, and not neighbours as in the paper: the cost is the same.
    first, second = heads.chunk(2, -1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


class Llama(nn.Module):
    """Maps tokens (batch, tokens) to scores of the next ones (batch, tokens, words)."""

    def __init__(
        self,
        blocks: int,
        width: int,
        heads: int,
        inner: int,
        *,
        groups: int | None,
        words: int,
        tied: bool = False,
        fused: bool = True,
        head: int | None = None,
        biases: bool = False,
    ) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(words, width)
        each = head or width // heads
        made = (
            Block(
                width,
                heads,
                inner,
                groups=groups or heads,
                head=each,
                biases=biases,
                fused=fused,
            )
            for _ in range(blocks)
        )
        self.blocks = nn.Sequential(*made)
        self.norm = nn.RMSNorm(width)
        self.lm_head = nn.Linear(width, words, bias=False)
        if tied:
            self.lm_head.weight = self.embed_tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores."""
        return self.lm_head(self.norm(self.blocks(self.embed_tokens(tokens))))
