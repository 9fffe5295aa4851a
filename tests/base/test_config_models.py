"""Integers of the configuration have 64 bits."""

import pytest
from pydantic import ValidationError

from dpsim.base.config import LARGEST_INTEGER, Config


class Numbers(Config):
    seed: int = 0
    several: tuple[int, ...] = ()


def test_the_largest_integer_is_one_of_64_bits():
    assert Numbers(seed=LARGEST_INTEGER, several=(-LARGEST_INTEGER,)).seed == 2**63 - 1


@pytest.mark.parametrize("values", [{"seed": 2**63}, {"seed": -(10**400)}, {"several": (1, 2**64)}])
def test_larger_ones_are_refused_without_writing_them_out(values):
    with pytest.raises(
        ValidationError,
        match="must be an integer of 64 bits, at most 9223372036854775807, but got one of",
    ):
        Numbers.model_validate(values)
