"""Parameter servers on networks small enough to work out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_networks import OneWire, UnequalSwitch

from dpsim.network import Servers, ServersModel, SharedNetwork
from dpsim.network.conditions import Conditions, LinkChange
from dpsim.topology import ClusterConfig, Hosts, UniformSwitch

INSTANT = 1e30  # B/s: servers whose own work takes no time


def servers(workers, count, rate=1.0, latency=0.0, update_rate=INSTANT, **more):
    """Workers and servers on ports of their own of one switch."""
    ends = np.arange(workers + count)
    return Servers(
        UniformSwitch(workers + count, rate, latency),
        ends[:workers],
        ends[workers:],
        update_rate,
        **more,
    )


def both_ways(placed, nbytes, starts=None):
    starts = np.zeros(len(placed.workers)) if starts is None else np.array(starts, dtype=float)
    pushed = ServersModel(placed, "push").finish(starts, nbytes).finishes
    return pushed, ServersModel(placed, "pull").finish(pushed, nbytes).finishes


@pytest.mark.parametrize("workers", [1, 2, 4, 7])
@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_a_push_takes_the_time_of_the_narrower_side(workers, count):
    """max(n / B, m n / (k B)), and as long back."""
    pushed, pulled = both_ways(servers(workers, count, latency=3.0), 120)
    each = 3 + max(120, workers * 120 / count)
    np.testing.assert_allclose(pushed, each, rtol=1e-12)
    np.testing.assert_allclose(pulled, 2 * each, rtol=1e-12)


def test_a_server_takes_up_pushes_one_after_the_other():
    """Two servers at 10 B/s.

    Half of 120 B takes 6 s each; three arrive at once at 180 and the last is through 18 s later.
    """
    pushed, _ = both_ways(servers(3, 2, update_rate=10.0), 120)
    assert pushed.tolist() == pytest.approx([198] * 3)


def test_an_early_push_is_taken_up_while_others_are_on_their_way():
    """One server, 1 s a push.

    The first comes at 10, the second, which begins later, at 110 without others: 111.
    """
    pushed, _ = both_ways(servers(2, 1, update_rate=10.0), 10, starts=[0, 100])
    assert pushed.tolist() == pytest.approx([111, 111])


def test_a_late_worker_does_not_hold_up_the_pushes_of_others_but_all_pull_after_it():
    pushed, pulled = both_ways(servers(2, 2), 120, starts=[0, 500])
    assert pushed.tolist() == [620, 620]
    assert pulled.tolist() == [740, 740]


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_replicas_follow_in_a_chain(replicas):
    """Each hop moves n / k bytes at B from every server to the next at once."""
    pushed, _ = both_ways(servers(2, 4, latency=1.0, replicas=replicas), 120)
    assert pushed.tolist() == pytest.approx([1 + 120 + (replicas - 1) * (1 + 30)] * 2)


@pytest.mark.parametrize("nodes", [2, 4, 5])
def test_a_share_of_what_servers_beside_workers_hold_stays_on_its_node(tiny, nodes):
    """(m-1)/m n / B each way, with a server on each of m nodes whose cards have 1 MB/s."""
    hosts = Hosts(tiny(nodes).cluster)
    placed = Servers(hosts.network, hosts.workers, hosts.cpus, INSTANT)
    pushed, pulled = both_ways(placed, 1_000_000)
    each = (nodes - 1) / nodes
    np.testing.assert_allclose((pushed, pulled), ([each] * nodes, [2 * each] * nodes), rtol=1e-12)


def test_a_server_on_the_device_of_its_only_worker_only_updates():
    """No link lies between them: 120 B at 10 B/s take 12 s, and come back at once."""
    network = ClusterConfig(node="tpu-v2", nodes=1).build()
    placed = Servers(network, np.array([0]), np.array([0]), 10.0)
    pushed, pulled = both_ways(placed, 120)
    assert [*pushed, *pulled] == pytest.approx([12, 12])


def test_a_slow_port_of_a_server_holds_up_all():
    """Server 1 of two takes half of 100 B from two workers at 0.5 B/s."""
    network = UnequalSwitch(np.array([1, 1, 1, 1, 1, 1, 1, 0.5]))
    placed = Servers(network, np.array([0, 1]), np.array([2, 3]), INSTANT)
    assert both_ways(placed, 100)[0].tolist() == pytest.approx([200, 200])


def test_workers_behind_one_wire_share_it():
    placed = Servers(OneWire(3), np.array([0, 1]), np.array([2]), INSTANT)
    assert both_ways(placed, 100)[1].tolist() == pytest.approx([400, 400])


@given(workers=st.integers(1, 6), count=st.integers(1, 6), nbytes=st.integers(1, 10**6))
def test_what_enters_leaves(workers, count, nbytes):
    """Loads: what leaves the workers enters the servers, shares included; and a link's load takes
    at least its time.
    """
    placed = servers(workers, count)
    model = ServersModel(placed, "push")
    loads = model.finish(np.zeros(workers), nbytes).loads
    ports = workers + count
    assert loads[:workers] == pytest.approx(nbytes)
    assert loads[ports + workers :] == pytest.approx(workers * nbytes / count)
    assert model.traffic(nbytes).total == workers * nbytes
    assert ServersModel(placed, "pull").traffic(nbytes).total == workers * nbytes
    assert model.finish(np.zeros(workers), nbytes).finishes.max() >= loads.max() * (1 - 1e-12)


@given(st.lists(st.floats(0, 1000), min_size=3, max_size=3), st.integers(1, 500), st.floats(1, 50))
def test_later_starts_never_end_earlier(starts, nbytes, update_rate):
    placed = servers(3, 2, update_rate=update_rate)
    early, late = (
        both_ways(placed, nbytes, begin) for begin in (starts, [start + 7 for start in starts])
    )
    np.testing.assert_allclose(late[1], early[1] + 7, rtol=1e-9)
    assert (early[0] >= max(starts) + nbytes * (1 - 1e-9)).all()


def test_the_flow_that_stands_for_pushes_to_all_servers_is_as_fast_as_they_are():
    """Where servers are alike: k flows of n / k bytes end when the one does."""
    placed = servers(3, 4)
    shared = SharedNetwork(placed.network, 0.0, Conditions((), ()))
    ends = []
    routes = placed.network.routes(np.repeat(placed.workers, 4), np.tile(placed.servers, 3))
    shared.send(
        routes, np.arange(12), 120 / 4, lambda rows: ends.extend([shared.env.now] * len(rows))
    )
    while len(ends) < 12:
        shared.env.step()
    assert ends == pytest.approx([both_ways(placed, 120)[0][0]] * 12)


def test_a_link_that_slows_down_on_the_way():
    """The server's way in, at 1 B/s, halves at 50 s: 100 B need 150 s."""
    conditions = Conditions((), (LinkChange(50.0, 3, 0.5),))
    placed = servers(1, 1, conditions=conditions)
    assert both_ways(placed, 100)[0].tolist() == pytest.approx([150])


def test_pushes_that_begin_at_once_take_as_long_whenever_that_is():
    push = ServersModel(servers(2, 1), "push")
    ends = [push.finish(np.full(2, start), 100).finishes.tolist() for start in (0.0, 1000.0)]
    assert ends == [[200, 200], [1200, 1200]]


def test_pushes_that_begin_after_a_link_has_changed_take_as_long_as_that_link():
    """The server's way in, at 1 B/s, halves at 500 s."""
    conditions = Conditions((), (LinkChange(500.0, 5, 0.5),))
    push = ServersModel(servers(2, 1, conditions=conditions), "push")
    ends = [push.finish(np.full(2, start), 100).finishes.tolist() for start in (0.0, 1000.0)]
    assert ends == [[200, 200], [1400, 1400]]
