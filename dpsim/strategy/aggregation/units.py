"""How a model is divided: units of layers that are gathered together, and owners of tensors."""

from __future__ import annotations

from heapq import heapify, heapreplace

import numpy as np

from dpsim.strategy.aggregation.collective_call import ELEMENT
from dpsim.workload import Model

Unit = tuple[int, int, int]  # first layer, layer after the last, elements


def units_of(model: Model, size: float) -> list[Unit]:
    """Runs of successive layers whose weights are at least ``size`` bytes together, in fp32."""
    units: list[Unit] = []
    first = elements = 0
    for index, layer in enumerate(model.layers, 1):
        elements += layer.own_weights
        # A unit ends with the layer that makes it large enough; the last one is what is left over.
        if elements * ELEMENT >= size or index == len(model.layers):
            units.append((first, index, elements))
            first, elements = index, 0
    # Layers without parameters at the end have nothing to gather.
    return [unit for unit in units if unit[2]]


def units_of_blocks(model: Model) -> list[Unit]:
    """Each numbered block, and what stands before and behind them; of those that have weights."""
    ranges: list[tuple[int, int]] = []
    alone = False  # whether the layers so far, since the last block, stand in none
    for first, end in model.blocks:
        numbered = model.layers[first].block is not None
        # What stands between two blocks is one unit, however many layers it is.
        begin = ranges.pop()[0] if alone and not numbered else first
        ranges.append((begin, end))
        alone = not numbered
    sizes = [sum(layer.own_weights for layer in model.layers[a:b]) for a, b in ranges]
    return [(a, b, size) for (a, b), size in zip(ranges, sizes, strict=True) if size]


def owned(model: Model, owners: int) -> list[int]:
    """Elements of each owner of whole tensors; there are no more owners than tensors.

    The largest tensor first, each goes to whoever has the least so far (InternEvo,
    internlm/solver/optimizer/hybrid_zero_optim.py).
    """
    sizes: list[int] = np.sort(model.tensors.elements)[::-1].tolist()
    # Nobody has anything yet: the largest tensors go to one owner each.
    held = sizes[:owners]
    heapify(held)
    for size in sizes[owners:]:
        heapreplace(held, held[0] + size)
    return held
