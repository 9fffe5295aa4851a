"""Collectives that share a network with others, with other traffic, and with links that change;
worked out by hand.
"""

import networkx as nx
import numpy as np
import pytest
from small_networks import OneWire

from dpsim.base.errors import DpsimError
from dpsim.collectives import algorithm
from dpsim.network import (
    Background,
    Conditions,
    FlowsModel,
    LinkChange,
    MessageCosts,
    SharedNetwork,
)
from dpsim.network.flows import CollectiveRun
from dpsim.topology import (
    ClusterConfig,
    Routes,
    UniformSwitch,
    build_cluster,
    routes_avoiding,
)


def pair(nbytes, *conditions, network=None):
    """When both of two ranks have exchanged ``nbytes`` by butterfly, one byte an element, on links
    of 10 B/s.
    """
    network = network or UniformSwitch(2, 10.0, 0.0)
    background = tuple(c for c in conditions if isinstance(c, Background))
    changes = tuple(c for c in conditions if isinstance(c, LinkChange))
    schedule = algorithm("butterfly").schedule(2)
    model = FlowsModel(schedule, network, itemsize=1, conditions=Conditions(background, changes))
    return model.finish(np.zeros(2), nbytes).finishes.tolist()


def test_without_conditions_the_exchange_takes_its_bytes_over_the_rate():
    assert pair(100) == [10, 10]


def test_background_takes_half_of_a_link():
    assert pair(100, Background(0, 1)) == [
        20,
        20,
    ]  # 0 -> 1 has 5 B/s left; 1 -> 0 is through at 10, but the round is not


def test_background_takes_no_more_than_its_rate():
    assert pair(100, Background(0, 1, rate=2.0)) == [12.5, 12.5]


def test_a_link_that_slows_down_in_the_middle():
    assert pair(100, LinkChange(5, 0, 0.5)) == [15, 15]  # 50 B until 5 s, then 50 B at 5 B/s


def test_a_link_that_slowed_down_before_the_start():
    assert pair(100, LinkChange(-3, 0, 0.5)) == [20, 20]


def test_links_that_become_faster_than_they_were_built():
    # Both ways at 20 B/s: the bytes need no longer than that, whatever the links' own rate.
    assert pair(100, *(LinkChange(0, link, 2.0) for link in range(4))) == [5, 5]


def test_a_link_that_is_back_to_speed():
    assert pair(100, LinkChange(0, 0, 0.5), LinkChange(4, 0, 1.0)) == [12, 12]


def test_a_cut_link_with_no_way_around_is_an_error_that_names_it():
    with pytest.raises(DpsimError, match="no path remains around rank0->switch"):
        pair(100, LinkChange(5, 0, 0.0))


class TwoWays:
    """Two ranks joined over a switch a (10 B/s, the usual route) and a switch b (4 B/s); links out
    of the switches are fast.
    """

    ranks = 2
    capacities = np.array([10.0, 4.0, 10.0, 4.0, 99.0, 99.0, 99.0, 99.0])

    def routes(self, source, destination):
        return Routes((2 * source)[:, None], np.zeros(len(source)))

    def link_name(self, link):
        return f"link{link}"

    def gpu_name(self, rank):
        return f"gpu{rank}"

    def graph(self):
        graph = nx.DiGraph()
        for number, way in enumerate(
            [
                ("gpu0", "a", "gpu1"),
                ("gpu0", "b", "gpu1"),
                ("gpu1", "a", "gpu0"),
                ("gpu1", "b", "gpu0"),
            ]
        ):
            graph.add_edge(way[0], way[1], number=number, latency=0.0)
            graph.add_edge(way[1], way[2], number=4 + number, latency=0.0)
        return graph


def test_a_cut_link_is_gone_around_where_a_path_remains():
    # 40 B by 4 s over link 0, the other 60 B at 4 B/s over link 1: until 19 s.
    assert pair(100, LinkChange(4, 0, 0.0), network=TwoWays()) == [19, 19]


def finish_at_once(network, schedule, jobs):
    """Outcomes of several collectives at once; a job is the network's ranks, starts and bytes."""
    shared = SharedNetwork(network, 0.0, Conditions())
    runs = []
    for ranks, starts, nbytes in jobs:
        run = CollectiveRun(shared, schedule, np.array(ranks), nbytes, MessageCosts(), 1)
        run.enter_at(np.array(starts, float))
        runs.append(run)
    while any(run.running for run in runs):
        shared.env.step()
    return [run.outcome() for run in runs]


def test_two_jobs_share_a_wire():
    """Two pairs exchange 2 x 10 B each over one wire of 1 B/s; the second job starts at 10 s and
    has half of the first's size.
    """
    schedule = algorithm("butterfly").schedule(2)
    jobs = [([0, 1], [0, 0], 10), ([2, 3], [10, 10], 5)]
    outcomes = finish_at_once(OneWire(4), schedule, jobs)
    # Until 10 s the first moves 10 of its 20 B; then four flows share: 10 B each way of both are
    # through at once at 30 s.
    assert outcomes[0].finishes.tolist() == [30, 30]
    assert outcomes[1].finishes.tolist() == [30, 30]
    assert outcomes[0].loads.tolist() == [20]
    assert outcomes[1].loads.tolist() == [10]


def test_a_job_on_ranks_of_its_own_is_not_disturbed():
    schedule = algorithm("ring").schedule(2)
    jobs = [(ranks, [0, 0], 100) for ranks in ([0, 1], [2, 3])]
    outcomes = finish_at_once(UniformSwitch(4, 10.0, 0.0), schedule, jobs)
    single = FlowsModel(schedule, UniformSwitch(2, 10.0, 0.0), itemsize=1).finish(np.zeros(2), 100)
    for outcome in outcomes:
        assert outcome.finishes.tolist() == single.finishes.tolist()


def test_very_many_cut_links_are_counted():
    cluster = ClusterConfig(nodes=2, node="dgx1-v100", network={"fabric": "single-switch"})
    network = build_cluster(cluster)
    every = frozenset(range(len(network.capacities)))
    with pytest.raises(DpsimError, match=r"and \d+ more is cut") as refused:
        routes_avoiding(network, np.array([0]), np.array([8]), every)
    assert len(str(refused.value)) < 400
