"""Rounds of very many transfers, taken in blocks: the same as laid out whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_networks import UnequalSwitch

from dpsim.collectives import algorithm
from dpsim.network import MessageCosts, RoundsModel, max_min_rates, schedule_on
from dpsim.network.maxmin import BlocksOfFlows
from dpsim.topology import ClusterConfig, build_cluster

COSTS = MessageCosts(overhead=3e-6, gamma=1e-10)
OVERSUBSCRIBED = {
    "fabric": "leaf-spine",
    "nodes_per_leaf": 2,
    "spines": 2,
    "oversubscription": 4,
    "duplex": 0.7,
}
CLUSTERS = {
    "one switch": {"nodes": 3, "node": "dgx-h100"},
    "shared card": {
        "nodes": 4,
        "node": "dgx1-v100",
        "network": {"fabric": "single-switch", "nics_per_node": 1},
    },
    "oversubscribed": {"nodes": 6, "node": "dgx-a100", "network": OVERSUBSCRIBED},
    "two kinds": {
        "groups": [{"nodes": 2, "node": "dgx-h100"}, {"nodes": 1, "node": "dgx1-v100"}],
        "network": OVERSUBSCRIBED,
    },
}


def both_ways(monkeypatch, network, starts, nbytes=1_000_003):
    """The outcome of an all-to-all laid out whole, and in blocks of 40 transfers."""

    def outcome():
        schedule = schedule_on(network, algorithm("all-to-all"))
        return RoundsModel(schedule, network, COSTS).finish(starts, nbytes)

    whole = outcome()
    monkeypatch.setattr("dpsim.network.rounds.rounds._CROWD", 1)
    monkeypatch.setattr("dpsim.network.rounds.crowded_round._AT_ONCE", 40)
    return whole, outcome()


def assert_equal(whole, blocks):
    np.testing.assert_allclose(blocks.finishes, whole.finishes, rtol=1e-12)
    np.testing.assert_array_equal(blocks.loads, whole.loads)


@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize("skew", [0.0, 1e-3])
def test_on_clusters_it_is_what_the_whole_is(monkeypatch, name, skew):
    cluster = build_cluster(ClusterConfig.model_validate(CLUSTERS[name]))
    starts = np.random.default_rng(0).exponential(skew, cluster.ranks)
    assert_equal(*both_ways(monkeypatch, cluster, starts))


def test_where_every_link_differs_it_is_what_the_whole_is(monkeypatch):
    rng = np.random.default_rng(1)
    network = UnequalSwitch(rng.uniform(1e9, 9e9, 26), rng.uniform(0, 1e-4, 13))
    assert_equal(*both_ways(monkeypatch, network, rng.exponential(1e-3, 13)))


@given(st.integers(1, 6), st.integers(1, 40), st.integers(1, 4), st.randoms(use_true_random=False))
def test_rates_by_blocks_are_max_min_fair(links, flows, hops, random):
    rng = np.random.default_rng(random.randrange(2**32))
    capacities = rng.integers(1, 9, links).astype(float)
    # Each route crosses a link once at most; some none at all.
    ways = rng.random((flows, links)).argsort(axis=1)[:, :hops]
    ways = np.where(rng.random(ways.shape) < 0.3, -1, ways)
    blocks = BlocksOfFlows(capacities)
    for part in np.array_split(ways, 3):
        blocks.add([part])
    rates = np.concatenate(blocks.rates())
    np.testing.assert_allclose(rates, max_min_rates(ways, capacities), rtol=1e-12)
