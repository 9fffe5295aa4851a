"""Optimisers: the state per parameter, and the bytes that an update moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Optimizer = Literal[
    "sgd", "momentum", "adam", "adamw", "adam-8bit", "adamw-8bit", "adagrad", "lars", "lamb"
]
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)

# Values that an optimiser keeps for each parameter: nothing, the momentum (also LARS), the sum of
# squares (Adagrad), two moments. Decoupled weight decay has the traffic of weight decay.
_STATES: Mapping[Optimizer, int] = {
    "sgd": 0,
    "momentum": 1,
    "adam": 2,
    "adamw": 2,
    "adam-8bit": 2,
    "adamw-8bit": 2,
    "adagrad": 1,
    "lars": 1,
    "lamb": 2,
}

# Bytes of a value in 8 bits, with the fp32 scale of its block of 256 (Dettmers et al., ICLR 2022,
# arXiv:2110.02861, has blocks of 2,048; bitsandbytes has 256 since 0.44). Tensors below 4,096
# elements, which stay in fp32, are neglected.
_EIGHT_BITS = 1 + 4 / 256

# Values per parameter that the norms of whole tensors add to an update's traffic. LARS reads weight
# and gradient for them (You et al. 2017, arXiv:1708.03888). LAMB writes Adam's step, reads it and
# the weight for the norms, and reads both again to apply it (You et al. 2020, arXiv:1904.00962,
# algorithm 2).
_NORM_VALUES: Mapping[Optimizer, int] = {"lars": 2, "lamb": 5}


def is_in_8_bits(optimizer: str) -> bool:
    """Return whether an optimiser's state is kept in 8 bits."""
    return optimizer.endswith("-8bit")


def optimizer_state_bytes(optimizer: Optimizer, width: int = 4) -> float:
    """Return the bytes per parameter of optimiser state, of ``width`` bytes a value (or 8 bits)."""
    return _STATES[optimizer] * (_EIGHT_BITS if is_in_8_bits(optimizer) else width)


def update_bytes(optimizer: Optimizer, width: int = 4) -> float:
    """Return the bytes per parameter that an update reads and writes.

    The weight and each state are read and written, the gradient is read, and norms take more, with
    ``width`` bytes per value, except states in 8 bits. In mixed precision the gradient is half as
    wide, but a half-width copy of the weight is written: the same sum.
    """
    plain = width * (3 + _NORM_VALUES.get(optimizer, 0))
    return plain + 2 * optimizer_state_bytes(optimizer, width)


def update_rounds(optimizer: Optimizer) -> float:
    """Return the kernels of an update relative to an optimiser with a single state."""
    return max(float(_STATES[optimizer]), 0.5)
