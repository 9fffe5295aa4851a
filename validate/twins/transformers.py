"""BERT, GPT and LLaMA in torch, with attention fused by torch or with explicit scores."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

_ROTARY_BASE = 10_000.0  # of the rotary frequencies, whose values do not affect the time


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Reshape (batch, tokens, width) to (batch, heads, tokens, width / heads)."""
    batch, tokens, width = x.shape
    return x.view(batch, tokens, heads, width // heads).transpose(1, 2)


def attend(query: Tensor, key: Tensor, value: Tensor, *, fused: bool, causal: bool) -> Tensor:
    """Attend with heads (batch, heads, tokens, width); return (batch, tokens, heads x width)."""
    shared_by = query.shape[1] // key.shape[1]
    if shared_by > 1:
        # Grouped queries (GQA): each key and value head serves several query heads.
        key, value = (part.repeat_interleave(shared_by, dim=1) for part in (key, value))
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


class BertBlock(nn.Module):
    """BERT's attention, then a perceptron, each with a residual and normalised after."""

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
        heads = (split_heads(part(x), self.heads) for part in (self.query, self.key, self.value))
        attended = attend(*heads, fused=self.fused, causal=False)
        x = self.attention_norm(x + self.attention_output(attended))
        return self.output_norm(x + self.output(functional.gelu(self.intermediate(x))))


class Bert(nn.Module):
    """BERT: maps tokens (batch, tokens) to the pooled first one (batch, width)."""

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
        made = (BertBlock(width, heads, inner or 4 * width, fused=fused) for _ in range(blocks))
        self.blocks = nn.Sequential(*made)
        self.pooler = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the pooler's output for the first token."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        # All in one segment: which one does not affect the time.
        segments = self.segments(torch.zeros_like(tokens))
        x = self.norm(self.words(tokens) + self.positions(places) + segments)
        return torch.tanh(self.pooler(self.blocks(x)[:, 0]))


class GptBlock(nn.Module):
    """GPT's attention, then a perceptron, each with a residual and normalised before."""

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
        heads = (split_heads(part, self.heads) for part in self.c_attn(self.ln_1(x)).chunk(3, -1))
        x = x + self.attn_proj(attend(*heads, fused=self.fused, causal=True))
        return x + self.mlp_proj(functional.gelu(self.c_fc(self.ln_2(x))))


class Gpt(nn.Module):
    """GPT-2 and GPT-3: learnt positions, and an output that may be tied to the embedding.

    Maps tokens (batch, tokens) to scores of the next ones (batch, tokens, words).
    """

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
        made = (GptBlock(width, heads, inner or 4 * width, fused=fused) for _ in range(blocks))
        self.blocks = nn.Sequential(*made)
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, words, bias=False)
        # Share the tensor, whose gradient is the sum of both uses and is sent once.
        if tied:
            self.lm_head.weight = self.wte.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.lm_head(self.ln_f(self.blocks(self.wte(tokens) + self.wpe(places))))


class LlamaBlock(nn.Module):
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
        query = rotate(split_heads(self.q_proj(normal), self.heads))
        key = rotate(split_heads(self.k_proj(normal), self.groups))
        value = split_heads(self.v_proj(normal), self.groups)
        x = x + self.o_proj(attend(query, key, value, fused=self.fused, causal=True))
        normal = self.attention_norm(x)
        gate = functional.silu(self.gate_proj(normal))
        return x + self.down_proj(gate * self.up_proj(normal))


def rotate(heads: Tensor) -> Tensor:
    """Rotate each head's halves by angles that grow with the token's position (Su et al. 2021)."""
    tokens, each = heads.shape[-2:]
    powers = torch.arange(0, each, 2, device=heads.device) / each
    places = torch.arange(tokens, device=heads.device)
    angles = places[:, None] * _ROTARY_BASE**-powers
    # Computed in float32: angles of far positions exceed half precision.
    cosine = angles.cos().to(heads.dtype)
    sine = angles.sin().to(heads.dtype)
    # Rotate halves like Hugging Face, not neighbours like the paper, at the same cost.
    first, second = heads.chunk(2, -1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


class Llama(nn.Module):
    """LLaMA and its like: RMS norm, rotary positions, gated feed-forward, grouped keys.

    Maps tokens (batch, tokens) to scores of the next ones (batch, tokens, words).
    """

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
            LlamaBlock(
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
