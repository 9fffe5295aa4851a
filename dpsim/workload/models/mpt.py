"""MPT (MosaicML 2023) as in llm-foundry's published tables of throughput.

A GPT with fused attention, biases, and a table of positions instead of ALiBi. MPT-7B on 2,048
tokens has 6,658,859,008 parameters; the published checkpoint, with ALiBi and without biases,
6,649,286,656.
"""

from __future__ import annotations

from dpsim.workload.layer import Model
from dpsim.workload.models.gpt import gpt

_WORDS = 50_368  # of GPT-NeoX's tokeniser, rounded up to a multiple of 128


def mpt(
    name: str,
    blocks: int,
    width: int,
    heads: int,
    sequence_length: int,
    *,
    fused: bool = True,
) -> Model:
    """Build a decoder of ``blocks`` blocks over ``sequence_length`` tokens, with its loss."""
    return gpt(
        name,
        blocks,
        width,
        heads,
        sequence_length,
        positions=sequence_length,
        words=_WORDS,
        fused=fused,
    )
