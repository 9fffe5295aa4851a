"""Activation checkpointing: which layers backward computes again, and what is kept for it.

A block (layers in a row whose names share their first number) is checkpointed as a whole: what
enters it is kept, and the rest is computed again when its backward pass begins. Computing again
stops at the last tensor that backward needs, as torch's non-reentrant checkpointing does: what
leaves the block is kept by the next one. Layers outside blocks, the embedding and the output layer,
keep everything. A network without blocks is computed again as a whole.

Selective checkpointing decides by operator, as torchtitan does: the outputs of products and of
fused attention stay, but for every second linear layer, and the rest is computed again.
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
    """What is computed again: a ``share`` of the blocks, evenly spread.

    ``selective``: of each only what is cheap. ``layers``: segments of so many layers instead of
    blocks, of which only the last output is kept.
    """

    share: Fraction = Fraction(1)
    selective: bool = False
    layers: int | None = None

    def of(self, model: Model) -> Recomputation:
        """Its segments of ``model``, and which layers of them run twice."""
        layers = len(model.layers)
        if self.layers is not None:
            firsts = range(0, layers, self.layers)
            segments = [(first, min(first + self.layers, layers)) for first in firsts]
            return Recomputation(model, tuple(segments), np.ones(layers, dtype=bool))
        blocks = [each for each in model.blocks if model.layers[each[0]].block is not None]
        if not blocks:
            # No blocks to choose in: all of the model, or where only cheap parts are wanted,
            # nothing.
            everything = np.full(layers, not self.selective)
            return Recomputation(model, model.blocks, everything)
        chosen = tuple(self._spread(blocks))
        again = np.zeros(layers, dtype=bool)
        for first, end in chosen:
            again[first:end] = _again(model.layers[first:end], selective=self.selective)
        return Recomputation(model, chosen, again)

    def _spread(self, blocks: list[Segment]) -> Iterator[Segment]:
        """The blocks with which the running count reaches the next whole number."""
        for index, block in enumerate(blocks):
            # `share` is a fraction: as a float, ten tenths might stop short of the next whole
            # number.
            if int((index + 1) * self.share) > int(index * self.share):
                yield block


@dataclass(frozen=True, eq=False)
class Recomputation:
    """The layers of ``model`` that run ``again``, in segments that do so together."""

    model: Model
    segments: tuple[Segment, ...]
    again: BoolArray

    def seconds(self, forward: FloatArray) -> FloatArray:
        """What backward computes again of ``forward``, at the layer where it first needs it.

        That is the last layer of each segment. Any amount of a forward pass may stand for seconds.
        """
        moved = np.zeros_like(forward)
        for first, end in self.segments:
            # Nothing is computed again where backward does not come to.
            if end > self.model.first_trained:
                moved[end - 1] = forward[first:end][self.again[first:end]].sum()
        return moved

    @property
    def held(self) -> int:
        """Elements of activations per sample that a pass holds at most.

        What is kept, what leaves each segment, and all that the largest segment computes again.
        """
        return int(self.kept.sum()) + self.largest

    @property
    def largest(self) -> int:
        """Elements per sample that the largest segment computes again."""
        activations = self._activations
        return max(
            (
                int(activations[first:end][self.again[first:end]].sum())
                for first, end in self.segments
            ),
            default=0,
        )

    @property
    def kept(self) -> NDArray[np.int64]:
        """Elements per sample that stay until backward, by layer."""
        activations = self._activations
        stays = np.where(self.again, 0, activations)
        for first, end in self.segments:
            if self.again[end - 1] and end < len(stays):
                # Stays as the input of what follows, though it is computed again in its own
                # segment.
                stays[end - 1] += last_kept(activations[first:end].tolist())
        return stays

    @property
    def _activations(self) -> NDArray[np.int64]:
        return np.array([layer.activations for layer in self.model.layers], dtype=np.int64)


def kept_by_block(model: Model, recompute: Recompute | None) -> FloatArray:
    """Elements per sample that each block keeps until its backward pass, at its last layer."""
    kept = model.vector("activations")
    if recompute is not None:
        kept = recompute.of(model).kept.astype(float)
    found = np.zeros(len(model.layers))
    for first, end in model.blocks:
        found[end - 1] = kept[first:end].sum()
    return found


def _again(layers: tuple[Layer, ...], *, selective: bool) -> BoolArray:
    """Which layers of a block run twice."""
    again = np.array([not (selective and stays) for stays in _outputs_stay(layers)])
    # The block's output is the next one's input, so what only leads to it need not run again.
    again[-1] = False
    for index in range(len(layers) - 2, -1, -1):
        if layers[index].activations:
            break
        again[index] = False
    return again


def _outputs_stay(layers: tuple[Layer, ...]) -> Iterator[bool]:
    """Whether selective checkpointing keeps each layer's output."""
    linear = 0
    for layer in layers:
        linear += layer.kind == "linear"
        if layer.kind == "linear":
            yield linear % 2 == 1
        else:
            # Scores that are written out are no output: softmax, which is computed again, reads
            # them.
            yield layer.kind == "attention" and layer.activations > 0


def last_kept(activations: Sequence[int]) -> int:
    """The last number above 0, or 0: layers that keep nothing hand on what they were given."""
    return next((kept for kept in reversed(activations) if kept), 0)
