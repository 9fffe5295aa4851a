"""Division of a model into units of layers that are gathered together, and owners of tensors."""

from __future__ import annotations

from heapq import heapify, heapreplace

import numpy as np

from dpsim.strategy.aggregation.collective_call import ELEMENT
from dpsim.workload import Model

Unit = tuple[int, int, int]  # first layer, layer after the last, elements


def units_of(model: Model, size: float) -> list[Unit]:
    """Return runs of successive layers whose weights in fp32 have at least ``size`` bytes."""
    units: list[Unit] = []
    first = elements = 0
    for index, layer in enumerate(model.layers, 1):
        elements += layer.own_weights
        # A unit ends with the layer that makes it large enough; the last unit is the remainder.
        if elements * ELEMENT >= size or index == len(model.layers):
            units.append((first, index, elements))
            first, elements = index, 0
    # Trailing layers without parameters have nothing to gather.
    return [unit for unit in units if unit[2]]


def units_of_blocks(model: Model) -> list[Unit]:
    """Return each block and the layers before, between and after them, if they have weights."""
    ranges: list[tuple[int, int]] = []
    outside_blocks = False  # whether the layers since the last block belong to none
    for first, end in model.blocks:
        numbered = model.layers[first].block is not None
        # All layers between two blocks are one unit.
        begin = ranges.pop()[0] if outside_blocks and not numbered else first
        ranges.append((begin, end))
        outside_blocks = not numbered
    sizes = [sum(layer.own_weights for layer in model.layers[a:b]) for a, b in ranges]
    return [(a, b, size) for (a, b), size in zip(ranges, sizes, strict=True) if size]


def owned(model: Model, owners: int) -> list[int]:
    """Return the elements of each owner of whole tensors; at most one owner per tensor.

    In order of decreasing size, each tensor goes to the owner with the least so far (InternEvo,
    internlm/solver/optimizer/hybrid_zero_optim.py).
    """
    sizes: list[int] = np.sort(model.tensors.elements)[::-1].tolist()
    # At first all owners are empty: the largest tensors go to one owner each.
    held = sizes[:owners]
    heapify(held)
    for size in sizes[owners:]:
        heapreplace(held, held[0] + size)
    return held
