"""The butterfly of a degree of choice, beside a lecture's own numbers."""

import numpy as np
import pytest

from dpsim.base.errors import DpsimError
from dpsim.collectives import Costs, RankLayout, algorithm, traffic
from dpsim.network import RoundsModel
from dpsim.strategy import StrategyConfig
from dpsim.topology import UniformSwitch

S = 4_000


def partners(name, ranks, rank):
    """To whom ``rank`` sends, round by round."""
    rounds = algorithm(name).schedule(ranks).each_round()
    return [each.destination[each.source == rank].tolist() for each in rounds]


def test_degree_4_among_16_exchanges_one_digit_a_round():
    """Rank 6 is 12 to the base 4: it meets 10, 11 and 13, then 02, 22 and 32."""
    assert partners("butterfly:4", 16, 6) == [[7, 4, 5], [10, 14, 2]]


@pytest.mark.parametrize(
    ("name", "ranks", "meeting"),
    [
        ("butterfly:4", 64, [4, 4, 4]),
        ("butterfly:4", 32, [4, 4, 2]),
        ("butterfly:4", 12, [4, 3]),
        ("butterfly:3", 9, [3, 3]),
        ("butterfly:16", 8, [8]),
        ("butterfly", 8, [2, 2, 2]),
    ],
)
def test_the_last_round_is_of_as_many_ranks_as_are_left(name, ranks, meeting):
    assert [len(others) + 1 for others in partners(name, ranks, 0)] == meeting
    sent = sum(each - 1 for each in meeting) * S
    moved = traffic(algorithm(name).schedule(ranks), S)
    assert (moved.busiest, moved.total) == (sent, ranks * sent)


def test_surplus_ranks_fold_in_before_and_out_after():
    """Of 18 ranks 16 meet, and 16 and 17 give their vectors to 0 and 1."""
    assert partners("butterfly:4", 18, 17) == [[1], [], [], []]
    assert partners("butterfly:4", 18, 1) == [[], [2, 3, 0], [5, 9, 13], [17]]


@pytest.mark.parametrize(("ranks", "folding"), [(16, 0.0), (18, 2 * (3 + 5 + 7 * S) + 11 * S)])
def test_seconds_are_those_of_the_formula(ranks, folding):
    """Two rounds of 3 o + alpha + 3 S (beta + gamma)."""
    costs = Costs(alpha=5.0, beta=7.0, gamma=11.0, overhead=3.0)
    schedule = algorithm("butterfly:4").schedule(ranks)
    found = algorithm("butterfly:4").exact_time(RankLayout(ranks), schedule.chunking(S), costs)
    assert found == 2 * (3 * 3 + 5 + 3 * S * (7 + 11)) + folding


def test_degree_2_is_the_butterfly():
    assert algorithm("butterfly:2") is algorithm("butterfly")
    assert algorithm("butterfly:4") is algorithm("butterfly:4")


def test_a_higher_degree_suits_small_vectors_and_a_lower_one_large():
    def seconds(name, nbytes):
        model = RoundsModel(algorithm(name).schedule(64), UniformSwitch(64, 1e9, 1e-6))
        return model.finish(np.zeros(64), nbytes).finishes.max()

    assert seconds("butterfly:4", 8) < seconds("butterfly", 8)
    assert seconds("butterfly:4", 8_000_000) > seconds("butterfly", 8_000_000)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("butterfly:1", "butterfly must have a degree from 2 to 1,048,576, but got 1"),
        ("butterfly:x", r"a whole number as degree \(butterfly:4\), but got 'butterfly:x'"),
        ("butterfly:", r"a whole number as degree \(butterfly:4\), but got 'butterfly:'"),
        ("ring:4", r"'ring:4' \(did you mean 'ring'\?\)"),
    ],
)
def test_what_is_no_degree_is_refused(name, message):
    with pytest.raises(DpsimError, match=message):
        algorithm(name)
    with pytest.raises(ValueError, match=message):
        StrategyConfig.model_validate({"aggregation": {"kind": "allreduce", "algorithm": name}})
