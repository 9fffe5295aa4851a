import numpy as np
import pytest
from fabrics import every_pair, fat_tree, leaf_spine
from hypothesis import given
from hypothesis import strategies as st

from dpsim.topology import HASHED, Spread


@given(st.integers(0, 2**63), st.integers(1, 64), st.integers(0, 5))
def test_every_way_is_a_way(seed, ways, level):
    chosen = Spread(seed).choose(np.arange(100), np.arange(100)[::-1], ways, level)
    assert ((chosen >= 0) & (chosen < ways)).all()


@pytest.mark.parametrize("ways", [2, 4, 7, 21])
def test_flows_spread_evenly(ways):
    source, destination = every_pair(128)
    counts = np.bincount(HASHED.choose(source, destination, ways), minlength=ways)
    expected = len(source) / ways
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)  # five standard deviations


def test_the_choices_of_one_route_are_independent():
    source, destination = every_pair(128)
    pairs = HASHED.choose(source, destination, 8) * 8 + HASHED.choose(
        source, destination, 8, level=1
    )
    counts = np.bincount(pairs, minlength=64)
    assert counts.min() > 0.7 * counts.mean()


def test_the_same_seed_gives_the_same_routes_and_another_seed_others():
    for tree in (leaf_spine, fat_tree):
        pairs = every_pair(tree().ports.count)
        first, again, other = (tree(spread=Spread(seed)).routes(*pairs).links for seed in (7, 7, 8))
        np.testing.assert_array_equal(first, again)
        assert (first != other).any()


def split_mix(bits):
    """SplitMix64's finaliser in Python's own integers."""
    mask = 2**64 - 1
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & mask
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & mask
    return bits ^ bits >> 31


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 5))
def test_the_hash_does_not_depend_on_the_machine(seed, source, destination, level):
    golden, mask = 0x9E3779B97F4A7C15, 2**64 - 1
    mixed = split_mix(seed * golden + (level + 1) * 0xD1B54A32D192ED03 + source * golden & mask)
    expected = split_mix(mixed + destination * golden & mask)
    assert Spread(seed).hash(np.array([source]), np.array([destination]), level)[0] == expected


def test_by_destination_the_source_does_not_matter():
    chosen = (
        Spread(None).choose(np.arange(6), np.full(6, 13), 4),
        Spread(None).choose(np.arange(6), np.full(6, 13), 4, 1),
    )
    assert [set(ways.tolist()) for ways in chosen] == [{1}, {3}]
