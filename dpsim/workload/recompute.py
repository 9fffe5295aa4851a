"""Activation checkpointing: the layers that backward recomputes, and the activations it keeps.

A checkpointed block (successive layers whose names share their first number) keeps its input, and
the rest is recomputed when its backward pass begins. Recomputation stops at the last tensor that
backward needs, as in torch's non-reentrant checkpointing: the next block keeps this one's output.
Layers outside blocks, the embedding and the output layer, keep everything. A network without blocks
is recomputed as a whole.

Selective checkpointing decides by operator, as in torchtitan: the outputs of products and of fused
attention are kept, except every second linear layer, and the rest is recomputed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import BoolArray, FloatArray
from dpsim.workload.layer import Layer, Model

Segment = tuple[int, int]  # first layer, layer after the last


@dataclass(frozen=True, slots=True)
class Recompute:
    """The part to recompute: a ``share`` of the blocks, evenly spread.

    ``selective``: only the cheap layers of each block. ``layers``: segments of that many layers,
    instead of blocks, each of which keeps only its last output.
    """

    share: Fraction = Fraction(1)
    selective: bool = False
    layers: int | None = None

    def of(self, model: Model) -> Recomputation:
        """Return the segments of ``model``, and which layers run twice."""
        layers = len(model.layers)
        if self.layers is not None:
            firsts = range(0, layers, self.layers)
            segments = [(first, min(first + self.layers, layers)) for first in firsts]
            return Recomputation(model, tuple(segments), np.ones(layers, dtype=bool))
        blocks = [each for each in model.blocks if model.layers[each[0]].block is not None]
        if not blocks:
            # Without blocks: all layers, or none in selective mode.
            everything = np.full(layers, not self.selective)
            return Recomputation(model, model.blocks, everything)
        chosen = tuple(self._spread(blocks))
        recomputed = np.zeros(layers, dtype=bool)
        for first, end in chosen:
            recomputed[first:end] = _recomputed_layers(
                model.layers[first:end], selective=self.selective
            )
        return Recomputation(model, chosen, recomputed)

    def _spread(self, blocks: list[Segment]) -> Iterator[Segment]:
        """Yield the blocks at which the running count reaches the next integer."""
        for index, block in enumerate(blocks):
            # `share` is a Fraction: ten tenths as floats might be just below an integer.
            if int((index + 1) * self.share) > int(index * self.share):
                yield block


@dataclass(frozen=True, eq=False)
class Recomputation:
    """The layers of ``model`` that are ``recomputed``, in segments that run together."""

    model: Model
    segments: tuple[Segment, ...]
    recomputed: BoolArray

    def seconds(self, forward: FloatArray) -> FloatArray:
        """Return the recomputed part of ``forward``, at each segment's last layer.

        ``forward`` holds seconds or any other amount.
        """
        moved = np.zeros_like(forward)
        for first, end in self.segments:
            # Backward ends at the first trained layer.
            if end > self.model.first_trained:
                moved[end - 1] = forward[first:end][self.recomputed[first:end]].sum()
        return moved

    @property
    def held(self) -> int:
        """The peak elements per sample: what is kept, and what the largest segment recomputes."""
        return int(self.kept.sum()) + self.largest

    @property
    def largest(self) -> int:
        """Elements per sample that the largest segment recomputes."""
        activations = self._activations
        return max(
            (
                int(activations[first:end][self.recomputed[first:end]].sum())
                for first, end in self.segments
            ),
            default=0,
        )

    @property
    def kept(self) -> NDArray[np.int64]:
        """Elements per sample that are kept until backward, by layer."""
        activations = self._activations
        stays = np.where(self.recomputed, 0, activations)
        for first, end in self.segments:
            if self.recomputed[end - 1] and end < len(stays):
                # The segment's output is kept as the input of the following layer.
                stays[end - 1] += last_kept(activations[first:end].tolist())
        return stays

    @property
    def _activations(self) -> NDArray[np.int64]:
        return np.array([layer.activations for layer in self.model.layers], dtype=np.int64)


def kept_by_block(model: Model, recompute: Recompute | None) -> FloatArray:
    """Return the elements per sample that each block keeps until backward, at its last layer."""
    kept = model.vector("activations")
    if recompute is not None:
        kept = recompute.of(model).kept.astype(float)
    found = np.zeros(len(model.layers))
    for first, end in model.blocks:
        found[end - 1] = kept[first:end].sum()
    return found


def _recomputed_layers(layers: tuple[Layer, ...], *, selective: bool) -> BoolArray:
    """Return which layers of a checkpointed block run twice."""
    recomputed = np.array([not (selective and stays) for stays in _keeps_output(layers)])
    # The next block keeps this one's output, so layers that only lead to it do not run again.
    recomputed[-1] = False
    for index in range(len(layers) - 2, -1, -1):
        if layers[index].activations:
            break
        recomputed[index] = False
    return recomputed


def _keeps_output(layers: tuple[Layer, ...]) -> Iterator[bool]:
    """Yield whether selective checkpointing keeps each layer's output."""
    linear = 0
    for layer in layers:
        linear += layer.kind == "linear"
        if layer.kind == "linear":
            yield linear % 2 == 1
        else:
            # Not materialised scores, which only the recomputed softmax reads.
            yield layer.kind == "attention" and layer.activations > 0


def last_kept(activations: Sequence[int]) -> int:
    """Return the last number above 0, if any: layers that keep nothing pass on their input."""
    return next((kept for kept in reversed(activations) if kept), 0)
