"""Gossip's graphs: who hears from whom, and how fast averages spread."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.base.errors import UnknownNameError
from dpsim.collectives import GOSSIP_GRAPHS, execute, gossip_turns, mixing_matrix, most_neighbours

EVERY_GRAPH = pytest.mark.parametrize("graph", GOSSIP_GRAPHS)
MANY = pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17])


def matrices(graph, ranks, seed=0):
    return [mixing_matrix(turn) for turn in gossip_turns(graph, ranks, seed)]


def second_eigenvalue(matrix):
    """The modulus of the second largest: by it the distance from the mean shrinks in each turn."""
    return np.sort(np.abs(np.linalg.eigvals(matrix)))[-2]


@EVERY_GRAPH
@MANY
def test_every_turn_keeps_the_mean(graph, ranks):
    """W is doubly stochastic.

    Rows add up to 1 (each rank takes a mean), and columns (the mean over ranks stays).
    """
    for matrix in matrices(graph, ranks):
        assert (matrix >= 0).all()
        np.testing.assert_allclose(matrix.sum(axis=0), 1)
        np.testing.assert_allclose(matrix.sum(axis=1), 1)


@MANY
@pytest.mark.parametrize("graph", [graph for graph in GOSSIP_GRAPHS if graph != "exponential"])
def test_what_one_hears_from_hears_from_it(graph, ranks):
    assert all((matrix == matrix.T).all() for matrix in matrices(graph, ranks))


@EVERY_GRAPH
@MANY
def test_a_turn_is_what_its_matrix_says(graph, ranks):
    """The schedule, executed, leaves on each rank the sum of which the matrix is the mean."""
    for turn in gossip_turns(graph, ranks)[:3]:
        held = np.random.default_rng(0).normal(size=(ranks, 5))
        matrix = mixing_matrix(turn)
        sums = np.stack(execute(turn, held))
        np.testing.assert_allclose(sums / (matrix > 0).sum(axis=1, keepdims=True), matrix @ held)


@pytest.mark.parametrize("power", [0, 1, 2, 3, 4, 5])
def test_an_exponential_graph_is_exact_after_k_turns_with_2_to_the_k_ranks(power):
    ranks = 2**power
    product = reduce(np.matmul, matrices("exponential", ranks))
    np.testing.assert_allclose(product, np.full((ranks, ranks), 1 / ranks), atol=1e-12)
    assert len(gossip_turns("exponential", ranks)) == max(power, 1)


@pytest.mark.parametrize("ranks", [3, 4, 5, 8, 16, 33])
def test_the_second_eigenvalue_of_a_ring(ranks):
    """A circulant.

    (1 + 2 cos(2 pi / m)) / 3 (Lian et al. 2017); the greater modulus, where a negative one is far
    out.
    """
    eigenvalues = (1 + 2 * np.cos(2 * np.pi * np.arange(1, ranks) / ranks)) / 3
    (matrix,) = matrices("ring", ranks)
    assert second_eigenvalue(matrix) == pytest.approx(np.abs(eigenvalues).max(), abs=1e-12)


def test_the_spectral_gap_of_a_ring_falls_with_the_square_of_its_ranks():
    gaps = [1 - second_eigenvalue(matrices("ring", ranks)[0]) for ranks in (16, 32, 64)]
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.03)
    assert gaps[1] / gaps[2] == pytest.approx(4, rel=0.01)


def test_a_torus_mixes_faster_than_a_ring():
    for ranks in (9, 16, 36):
        assert second_eigenvalue(matrices("torus", ranks)[0]) < second_eigenvalue(
            matrices("ring", ranks)[0]
        )


@EVERY_GRAPH
@given(ranks=st.integers(2, 24), seed=st.integers(0, 5))
def test_all_come_to_the_mean_in_the_end(graph, ranks, seed):
    """Each turn contracts: the spread never grows, and in many cycles it is gone."""
    held = np.random.default_rng(seed).normal(size=ranks)
    spread = np.ptp(held)
    mean, turns = held.mean(), matrices(graph, ranks, seed)
    for _ in range(600 // len(turns) + 1):
        for matrix in turns:
            held = matrix @ held
            assert np.ptp(held) <= spread * (1 + 1e-12) + 1e-12
            spread = np.ptp(held)
    np.testing.assert_allclose(held, mean, atol=1e-2)


@pytest.mark.parametrize(
    ("graph", "ranks", "neighbours"),
    [
        ("ring", 8, 2),
        ("ring", 2, 1),
        ("exponential", 8, 1),
        ("random-pairs", 8, 1),
        ("torus", 16, 4),
        ("torus", 8, 3),
        ("ring", 1, 0),
    ],
)
def test_how_many_a_rank_hears_from(graph, ranks, neighbours):
    assert all(most_neighbours(turn) == neighbours for turn in gossip_turns(graph, ranks))


def test_one_of_an_odd_number_stands_aside():
    for matrix in matrices("random-pairs", 7):
        assert (np.diag(matrix) == 1).sum() == 1


def test_matchings_differ_from_turn_to_turn_and_from_seed_to_seed():
    turns = matrices("random-pairs", 16)
    assert len({matrix.tobytes() for matrix in turns}) == len(turns)
    assert not np.array_equal(turns[0], matrices("random-pairs", 16, seed=1)[0])
    assert np.array_equal(turns[0], matrices("random-pairs", 16)[0])


def test_an_unknown_graph_is_named():
    with pytest.raises(
        UnknownNameError,
        match="must be a known gossip graph, but got 'rign' \\(did you mean 'ring'",
    ):
        gossip_turns("rign", 4)
