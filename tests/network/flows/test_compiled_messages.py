"""A collective's messages by compiled loops end when those by numpy do."""

import numpy as np
import pytest

from dpsim.base.budget import limited
from dpsim.base.errors import FailedError
from dpsim.collectives import algorithm, algorithm_names
from dpsim.network import FlowsModel, MessageCosts, schedule_on
from dpsim.network import flows_model as flows
from dpsim.network.flows.compiled_messages import finish_by_loops
from dpsim.network.kernel import kernel
from dpsim.topology import ClusterConfig, Routes, UniformSwitch, build_cluster

pytestmark = pytest.mark.skipif(kernel() is None, reason="there is no compiler")

COSTS = MessageCosts(overhead=3e-6, gamma=2e-11)
FABRICS = {
    "switch": {"fabric": "single-switch"},
    "leaf-spine": {"fabric": "leaf-spine", "nodes_per_leaf": 2, "spines": 2, "oversubscription": 4},
    "torus": {"fabric": "torus", "dims": [4, 4]},
    "half duplex": {"fabric": "single-switch", "duplex": 0.6},
}


def both(model, starts, nbytes, monkeypatch):
    """Outcomes by loops, and by numpy."""
    monkeypatch.setattr(flows, "_MUCH", 0.0)
    assert model._by_loops(starts, nbytes) is not None
    by_loops = model.finish(starts, nbytes)
    monkeypatch.setattr(flows, "_MUCH", np.inf)
    assert model._by_loops(starts, nbytes) is None
    return by_loops, model.finish(starts, nbytes)


def assert_alike(found, expected):
    np.testing.assert_allclose(found.finishes, expected.finishes, rtol=1e-9)
    np.testing.assert_allclose(found.loads, expected.loads, rtol=1e-9)


@pytest.mark.pairwise
@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("name", ["ring", "hierarchical", "butterfly", "double-binary-tree"])
@pytest.mark.parametrize("at_once", [True, False])
def test_on_clusters(monkeypatch, fabric, name, at_once):
    cluster = build_cluster(
        ClusterConfig.model_validate(
            {"nodes": 4, "node": "dgx1-v100", "gpus_per_node": 4, "network": FABRICS[fabric]}
        )
    )
    random = np.random.default_rng(1)
    starts = np.full(16, 5.0) if at_once else 5 + random.exponential(1e-3, 16)
    model = FlowsModel(schedule_on(cluster, algorithm(name)), cluster, COSTS)
    # Chunks of unequal lengths: 10,000,001 elements.
    assert_alike(*both(model, starts, 40_000_004, monkeypatch))


@pytest.mark.parametrize("name", algorithm_names())
def test_on_links_that_all_differ(monkeypatch, name):
    class Unequal(UniformSwitch):
        @property
        def capacities(self):
            return self.rate * np.random.default_rng(0).uniform(0.2, 1.0, 2 * self.ranks)

    network = Unequal(8, 1e9, 2e-6)
    starts = np.random.default_rng(2).exponential(1e-3, 8)
    model = FlowsModel(schedule_on(network, algorithm(name)), network, COSTS)
    for nbytes in (0, 3, 1_000_003):
        assert_alike(*both(model, starts, nbytes, monkeypatch))


class Wire:
    """Two ranks joined by one link of ``rate`` B/s, of which a transfer takes its ``share``."""

    ranks = 2

    def __init__(self, rate, share=None):
        self.capacities = np.array([rate])
        self.share = share

    def routes(self, source, destination):
        links = np.zeros((len(source), 1), dtype=np.int64)
        share = None if self.share is None else np.full(links.shape, self.share)
        return Routes(links, np.zeros(len(source)), share)


def by_loops(network):
    schedule = algorithm("butterfly").schedule(2)
    return finish_by_loops(kernel(), network, schedule, np.zeros(2), 100, MessageCosts(), 1)


def test_what_the_loops_do_not_know_is_left_to_numpy():
    assert by_loops(Wire(10.0)).finishes.tolist() == [20, 20]
    assert by_loops(Wire(10.0, share=0.5)) is None
    assert by_loops(Wire(0.0)) is None


def test_the_limit_of_time_is_kept(monkeypatch):
    monkeypatch.setenv("DPSIM_TIME_LIMIT", "1e-9")
    with limited(), pytest.raises(FailedError, match="takes more than"):
        by_loops(Wire(10.0))


@pytest.mark.parametrize("name", algorithm_names())
def test_transfers_are_counted(name):
    schedule = algorithm(name).schedule(16)
    assert schedule.transfers == sum(len(each.source) for each in schedule.each_round())
