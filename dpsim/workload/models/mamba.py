"""Mamba (Gu and Dao 2023): a scan over tokens with a state per channel, in one fused kernel.

``mamba-2.8b`` has 2,768,345,600 parameters. The scan has no matrix products and counts as memory
traffic; its exponentials may double its time.
"""

from __future__ import annotations

from math import ceil

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model


def mamba(
    name: str,
    blocks: int,
    width: int,
    tokens: int,
    *,
    widened: int | None = None,
    state: int = 16,
    rank: int | None = None,
    kernel: int = 4,
    words: int = 50_280,
    tied: bool = True,
) -> Model:
    """Build Mamba over ``tokens``, with its loss.

    ``widened`` inner channels (default: twice the width) have ``state`` values each. ``rank`` is
    the inner width of the two products that compute each token's step (default: a 16th of the
    width).
    """
    inner, rank = widened or 2 * width, rank or ceil(width / 16)
    b = Builder((tokens,))
    b.embedding("embeddings", words, width)
    for layer in (f"layers.{block}" for block in range(blocks)):
        b.rms_norm(f"{layer}.norm")
        b.linear(f"{layer}.mixer.in_proj", 2 * inner, bias=False)
        # One half is convolved over the last tokens, per channel; the other is the gate.
        b.shape = (inner, tokens + kernel - 1)
        b.conv(f"{layer}.mixer.conv1d", inner, kernel, bias=True, groups=inner)
        b.shape = (tokens, inner)
        b.activation(f"{layer}.mixer.silu", kept=True)
        b.linear(f"{layer}.mixer.x_proj", rank + 2 * state, bias=False)
        b.shape = (tokens, rank)
        b.linear(f"{layer}.mixer.dt_proj", inner)
        b.selective_scan(f"{layer}.mixer.scan", state)
        b.linear(f"{layer}.mixer.out_proj", width, bias=False, kept=False)
        b.add(f"{layer}.add", kept=True)
    b.rms_norm("norm_f")
    b.linear("lm_head", words, bias=False, tied=tied, kept=False)
    b.cross_entropy("loss")
    return b.build(name, f"{tokens} tokens")
