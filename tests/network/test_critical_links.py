"""A ring at the pace of its slowest links: at once what it is round by round."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_networks import UnequalSwitch

from dpsim.collectives import algorithm
from dpsim.network import MessageCosts, RoundsModel, schedule_on
from dpsim.network.kernel import kernel
from dpsim.network.rounds.compiled_rings import CompiledRings
from dpsim.network.rounds.critical_links import CriticalLinks
from dpsim.network.rounds.rounds_in_chain import RoundsInChain
from dpsim.topology import ClusterConfig, build_cluster

CHUNK = 4000
COSTLY = MessageCosts(overhead=1e-6, gamma=1e-9)


def both_ways(schedule, network, costs, starts):
    """Finishes with and without shortcuts, and whether the first phase took this one."""
    quick, slow = (
        RoundsModel(schedule, network, costs, collapse=collapse) for collapse in (True, False)
    )
    nbytes = CHUNK * schedule.chunks
    timed = quick.timed_round(0, 0, schedule.chunking(nbytes, 4))
    taken = timed._seconds_per_round is None and timed._critical is not None
    return quick.finish(starts, nbytes).finishes, slow.finish(starts, nbytes).finishes, taken


@given(
    nodes=st.integers(2, 12),
    rates=st.lists(st.floats(1.5, 40), min_size=1, max_size=7),
    slow_links=st.integers(1, 3),
    skew=st.sampled_from([0.0, 1e-6, 1e-4, 1e-2]),
    costs=st.sampled_from([MessageCosts(), COSTLY]),
    seed=st.integers(0, 99),
)
def test_nodes_of_fast_links_joined_by_slow_ones(nodes, rates, slow_links, skew, costs, seed):
    out = 1e9 * np.tile([*rates, *[1.0] * slow_links], nodes)
    network = UnequalSwitch(np.concatenate([out, np.full(len(out), 1e15)]), 1e-6)
    starts = skew * np.random.default_rng(seed).random(len(out))
    quick, slow, _ = both_ways(algorithm("ring").schedule(len(out)), network, costs, starts)
    np.testing.assert_allclose(quick, slow, rtol=1e-12, atol=1e-15)


@given(
    seed=st.integers(0, 999),
    ranks=st.integers(3, 60),
    skew=st.sampled_from([1e-6, 1e-3]),
    kinds=st.integers(2, 4),
)
def test_slow_links_anywhere(seed, ranks, skew, kinds):
    generator = np.random.default_rng(seed)
    out = 1e9 * generator.choice([1.0, 1.3, 2.0, 9.0][:kinds], ranks)
    network = UnequalSwitch(np.concatenate([out, np.full(ranks, 1e15)]), 0.0)
    quick, slow, _ = both_ways(
        algorithm("ring").schedule(ranks), network, COSTLY, skew * generator.random(ranks)
    )
    np.testing.assert_allclose(quick, slow, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("node", ["dgx1-v100", "dgx-a100", "dgx-h100"])
@pytest.mark.parametrize("skew", [0.0, 1e-5, 1e-2])
def test_a_ring_through_nodes_takes_this_way(node, skew):
    network = build_cluster(ClusterConfig(nodes=16, node=node))
    starts = skew * np.random.default_rng(3).random(network.ranks)
    quick, slow, taken = both_ways(schedule_on(network, algorithm("ring")), network, COSTLY, starts)
    assert taken
    np.testing.assert_allclose(quick, slow, rtol=1e-12)


@pytest.mark.skipif(kernel() is None, reason="there is no compiler")
@pytest.mark.parametrize("skew", [0.0, 1e-5, 1e-2])
@pytest.mark.parametrize("rings", [1, 3])
@pytest.mark.parametrize("cut", [[0, 10, 20], [0, 10, 15, 22]], ids=["equal", "padded"])
def test_the_compiled_loop_gives_the_same_to_the_last_bit(cut, rings, skew):
    """Rings side by side, in segments of one length or of several."""
    random = np.random.default_rng(4)
    ranks = 30
    lost = 0.5 + random.random(ranks)
    lost[cut] = 0.0
    place = random.permutation(rings * ranks).reshape(rings, ranks)
    links = CriticalLinks.of(
        place, np.tile(10 - lost, (rings, 1)), random.random(rings), rounds=10 * ranks
    )
    ready = skew * random.random(rings * ranks)
    np.testing.assert_array_equal(
        CompiledRings(kernel(), links).finish(ready), links.finish(ready), strict=True
    )


@pytest.mark.skipif(kernel() is None, reason="there is no compiler")
def test_the_compiled_loop_is_taken_for_many_ranks(monkeypatch):
    monkeypatch.setattr("dpsim.network.rounds.timed_round._MANY", 128)
    model = ring_through_nodes(16)
    assert isinstance(
        model.timed_round(0, 0, model.schedule.chunking(10**8, 4))._critical, CompiledRings
    )
    few = ring_through_nodes(8)
    assert isinstance(
        few.timed_round(0, 0, few.schedule.chunking(10**8, 4))._critical, CriticalLinks
    )


@pytest.mark.skipif(kernel() is None, reason="there is no compiler")
@pytest.mark.parametrize("name", ["double-binary-tree", "halving-doubling", "butterfly", "swing"])
def test_rounds_in_chain_give_the_same_to_the_last_bit(monkeypatch, name):
    network = build_cluster(ClusterConfig(nodes=4, node="dgx1-v100"))
    model = RoundsModel(schedule_on(network, algorithm(name)), network, COSTLY)
    starts = 1e-4 * np.random.default_rng(3).random(network.ranks)
    one_by_one = model.finish(starts, 10_000_004).finishes
    monkeypatch.setattr("dpsim.network.rounds.rounds._MUCH", 0.0)
    calls = []
    step = RoundsInChain.step

    def noted(*given):
        calls.append(step(*given))
        return calls[-1]

    monkeypatch.setattr(RoundsInChain, "step", noted)
    np.testing.assert_array_equal(model.finish(starts, 10_000_004).finishes, one_by_one)
    assert [found is None for found in calls] == [False]
    sent = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(sent.finish(starts, 10_000_004).finishes, one_by_one)
    ring = RoundsModel(schedule_on(network, algorithm("ring")), network, COSTLY)
    assert ring._single_rounds == 0


def ring_through_nodes(nodes):
    cluster = build_cluster(ClusterConfig(nodes=nodes, node="dgx-h100"))
    return RoundsModel(schedule_on(cluster, algorithm("ring")), cluster, COSTLY)


def test_a_late_rank_holds_up_the_slow_link_one_fast_hop_away():
    # Messages of 1, 1 and 4 s, half a second for each: a hop of 1.5 s to an end of the slow link,
    # five rounds of 4.5 s there.
    links = CriticalLinks.of(
        np.array([[0, 1, 2]]), np.array([[1.0, 1.0, 4.0]]), np.array([0.5]), rounds=6
    )
    assert links is not None
    assert links.finish(np.array([0.0, 10.0, 0.0])).tolist() == [34.0, 31.0, 34.0]


def test_too_few_rounds_or_too_even_losses_are_left_to_every_round():
    place, paid = np.array([[0, 1, 2]]), np.array([0.0])
    assert CriticalLinks.of(place, np.array([[1.0, 1.0, 4.0]]), paid, rounds=3) is None
    assert CriticalLinks.of(place, np.array([[1.0, 3.999, 4.0]]), paid, rounds=50) is None
