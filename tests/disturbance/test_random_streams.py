"""Streams taken in turn are, bit by bit, those made one by one."""

import numpy as np
import pytest

from dpsim.disturbance import (
    LognormalJitterConfig,
    ParetoJitterConfig,
    random_stream,
    random_streams,
)


# Seeds of one word, of as many as the pool has, and of more: they are mixed in differently.
@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 2**96 + 5, 2**128 + 5, 2**200 + 1])
@pytest.mark.parametrize(("purpose", "index"), [("gossip", ()), ("slow", (3,)), ("a", (1, 2))])
def test_streams_of_a_purpose(seed, purpose, index):
    taken = [stream.standard_normal(9) for stream in random_streams(seed, 5, purpose, *index)]
    made = [random_stream(seed, purpose, *index, place).standard_normal(9) for place in range(5)]
    assert np.array_equal(taken, made)


@pytest.mark.parametrize("seed", [0, 12345678901234567890, 2**140])
def test_streams_without_a_purpose_are_the_children_of_the_seed(seed):
    children = np.random.SeedSequence(seed).spawn(5)
    made = [np.random.Generator(np.random.Philox(child)).random(9) for child in children]
    assert np.array_equal([stream.random(9) for stream in random_streams(seed, 5)], made)


@pytest.mark.parametrize("jitter", [LognormalJitterConfig, ParetoJitterConfig])
def test_factors_of_all_workers_at_once_are_those_of_each(jitter):
    config = jitter(kind=jitter.model_fields["kind"].annotation.__args__[0])
    each = [config.shaped(config.draw(stream, 7)) for stream in random_streams(3, 100)]
    expected = np.transpose(each).astype(np.float32)
    assert np.array_equal(config.factors(100, 7, seed=3), expected)
