"""Flat vectors in buckets, and small integers packed into bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsim.strategy.compression.codec import Floats


def ceil_div(a: int, b: int) -> int:
    """Return ``a / b`` rounded up."""
    return -(-a // b)


def in_buckets(vector: Floats, size: int) -> Floats:
    """Return ``vector`` as rows of ``size`` elements, the last one padded with zeros."""
    rows = ceil_div(len(vector), size)
    padded = np.zeros(rows * size, dtype=np.float32)
    padded[: len(vector)] = vector
    return padded.reshape(rows, size)


def packed_bytes(count: int, bits: int) -> int:
    """Return the bytes of ``count`` numbers of ``bits`` each, without gaps."""
    return ceil_div(count * bits, 8)


def pack(numbers: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Pack numbers below 2**bits without gaps, the first in the first byte's highest bits."""
    # (numbers, bits): each row is a number, highest bit first.
    shifts = np.arange(bits - 1, -1, -1, dtype=np.uint8)
    flags = (numbers[:, None] >> shifts) & np.uint8(1)
    return np.packbits(flags)


def unpack(packed: NDArray[np.uint8], bits: int, count: int) -> NDArray[np.uint8]:
    """Return the ``count`` numbers of ``bits`` each that `pack` packed."""
    flags = np.unpackbits(packed, count=count * bits).reshape(count, bits)
    weights = (1 << np.arange(bits - 1, -1, -1)).astype(np.uint8)
    numbers: NDArray[np.uint8] = (flags * weights).sum(axis=1, dtype=np.uint8)
    return numbers


def safe_divide(above: Floats, below: Floats) -> Floats:
    """Return ``above / below``, 0 where ``below`` is 0, as is the scale of a bucket of zeros."""
    shape = np.broadcast_shapes(above.shape, below.shape)
    quotients = np.zeros(shape, np.float32)
    return np.divide(above, below, out=quotients, where=below != 0)
