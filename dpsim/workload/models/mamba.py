"""Mamba (Gu and Dao 2023): a state for each channel that goes over the tokens, in one fused kernel.

``mamba-2.8b`` has 2,768,345,600 parameters. The scan computes no matrix products and counts as
memory traffic; its exponentials may take as long again.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model


@dataclass(frozen=True, slots=True)
class Mamba:
    """The sizes of a model: ``widened`` channels inside, each with a state of ``state`` values.

    ``rank`` is the inner width of the two products that compute each token's step.
    """

    blocks: int
    width: int
    widened: int
    state: int
    rank: int
    kernel: int = 4
    words: int = 50_280
    tied: bool = True


def of_sizes(name: str, blocks: int, width: int, tokens: int) -> Model:
    """Build Mamba with the paper's proportions."""
    return mamba(name, Mamba(blocks, width, 2 * width, 16, ceil(width / 16)), tokens)


def mamba(name: str, sizes: Mamba, tokens: int) -> Model:
    """Build Mamba over ``tokens``, with the loss over its words."""
    b = Builder((tokens,))
    b.embedding("embeddings", sizes.words, sizes.width)
    for block in range(sizes.blocks):
        _block(b, f"layers.{block}", sizes)
    b.rms_norm("norm_f")
    b.linear("lm_head", sizes.words, bias=False, tied=sizes.tied, kept=False)
    b.cross_entropy("loss")
    return b.build(name, f"{tokens} tokens")


def _block(b: Builder, name: str, sizes: Mamba) -> None:
    tokens, inner = b.shape[0], sizes.widened
    b.rms_norm(f"{name}.norm")
    b.linear(f"{name}.mixer.in_proj", 2 * inner, bias=False)
    # One half is convolved over the last tokens, channel by channel; the other gates the output.
    b.shape = (inner, tokens + sizes.kernel - 1)
    b.conv(f"{name}.mixer.conv1d", inner, sizes.kernel, bias=True, groups=inner)
    b.shape = (tokens, inner)
    b.activation(f"{name}.mixer.silu", kept=True)
    b.linear(f"{name}.mixer.x_proj", sizes.rank + 2 * sizes.state, bias=False)
    b.shape = (tokens, sizes.rank)
    b.linear(f"{name}.mixer.dt_proj", inner)
    b.selective_scan(f"{name}.mixer.scan", sizes.state)
    b.linear(f"{name}.mixer.out_proj", sizes.width, bias=False, kept=False)
    b.add(f"{name}.add", kept=True)
