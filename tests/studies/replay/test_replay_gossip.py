"""Models that are only mixed: disagreement shrinks as the graph says, and the mean stays."""

import numpy as np
import pytest

from dpsim.collectives import gossip_turns
from dpsim.collectives.gossip import mixing_matrix

STILL = {"learning_rate": 0.0, "own_start": True}
ROUNDING = 1e-15  # of weights below 1, of which some are mixed


def disagreement(replayed, workers, graph, steps, **more):
    settings = {**STILL, "steps": steps, "points": steps}
    aggregation = {"kind": "gossip", "graph": graph}
    curve = replayed(workers, aggregation=aggregation, settings=settings, **more).curve
    return curve.column("disagreement")[
        :-1
    ]  # without the round at the end, after which there is none


@pytest.mark.parametrize(
    ("graph", "workers"), [("ring", 8), ("ring", 5), ("torus", 9), ("torus", 12)]
)
def test_disagreement_shrinks_by_the_second_eigenvalue(replayed, graph, workers):
    """The rate is that of the slowest mode, 1 less the spectral gap; other modes are gone by
    then.
    """
    (turn,) = gossip_turns(graph, workers)
    eigenvalues = np.sort(np.abs(np.linalg.eigvals(mixing_matrix(turn))))
    left = disagreement(replayed, workers, graph, 25)
    assert eigenvalues[-2] < 1
    np.testing.assert_allclose(left[-1] / left[-2], eigenvalues[-2], rtol=1e-4)
    assert (left[1:] <= eigenvalues[-2] * left[:-1] * (1 + 1e-9) + ROUNDING).all()


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_one_peer_exponential_is_exact_after_the_logarithm_of_the_workers(replayed, rounds):
    left = disagreement(replayed, 2**rounds, "exponential", rounds)
    assert left[rounds - 1] > 0.1
    assert left[rounds] < 1e-14


def test_random_pairs_shrink_it_too(replayed):
    left = disagreement(replayed, 8, "random-pairs", 20)
    assert (np.diff(left) <= 1e-12).all()
    assert left[-1] < 0.05 * left[0]


@pytest.mark.pairwise(strength=1)
@pytest.mark.parametrize(
    "compression", ["none", "int8", "qsgd", {"kind": "top-k", "density": 0.1}], ids=str
)
@pytest.mark.parametrize("sync", ["bsp", "asp", {"kind": "local-sgd", "every": 2}], ids=str)
def test_mixing_keeps_the_mean_and_reduces_the_spread(replayed, sync, compression):
    settings = {**STILL, "steps": 60}
    one = replayed(6, aggregation="gossip", sync=sync, compression=compression, settings=settings)
    start = replayed(6, aggregation="gossip", sync=sync, settings={**STILL, "steps": 1})
    np.testing.assert_allclose(one.parameters, start.parameters, atol=1e-5)
    left = one.curve.column("disagreement")
    assert left[-2] < 0.5 * left[0]


def test_the_last_round_takes_its_time_and_makes_all_agree(replayed):
    curve = replayed(4, aggregation="gossip").curve
    before, after = curve.points[-2:]
    assert before.disagreement > 0 == after.disagreement
    assert after.time_s > before.time_s
