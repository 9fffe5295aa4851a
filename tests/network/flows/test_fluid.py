"""Known timelines of flows on links of 10 B/s; bundles against the flows they stand for; random
traffic against a slow model.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsim.network import FluidNetwork, max_min_rates
from dpsim.network.flows import flows_under_way
from dpsim.network.flows.fluid import FluidEnvironment
from dpsim.topology import Routes, UniformSwitch

LINK = 10.0


def run(*sends, capacities=(LINK, LINK), begin=0.0):
    """When each of ``sends`` = (start s, links, latency s, bytes) ends, and how often rates were
    solved.
    """
    env = FluidEnvironment(begin)
    fluid = FluidNetwork(env, np.array(capacities))
    ends = {}

    def sender(number, start, links, latency, nbytes):
        yield env.timeout(start)
        routes = Routes(np.array(links, dtype=np.int64).reshape(1, -1), np.array([latency]))
        fluid.send(routes, np.array([nbytes]), lambda _: ends.__setitem__(number, env.now))

    for number, send in enumerate(sends):
        env.process(sender(number, *send))
    env.run()
    return [ends[number] for number in range(len(sends))], fluid.solves


def ends(*sends, **how):
    return run(*sends, **how)[0]


def test_latency_comes_first_then_the_bytes():
    assert ends((0, [0], 0.5, 100)) == [10.5]


def test_flows_that_start_at_once_share_the_rate():
    assert ends((0, [0], 0, 100), (0, [0], 0, 100)) == [20, 20]


def test_two_on_different_links_do_not():
    assert ends((0, [0], 0, 100), (0, [1], 0, 100)) == [10, 10]


def test_a_second_flow_takes_half_from_when_it_starts():
    # The first has 60 B left at 4 s, and 5 B/s from then on: until 16. The second then has 40 B
    # left, and 10 B/s: until 20.
    assert ends((0, [0], 0, 100), (4, [0], 0, 100)) == [16, 20]


def test_a_flow_takes_no_share_while_it_is_in_its_latency():
    assert ends((0, [0], 0, 100), (0, [0], 4, 100)) == [16, 20]


def test_the_slowest_link_of_a_route_counts():
    assert ends((0, [0, 1], 0, 100), capacities=(10.0, 4.0)) == [25]


def test_a_flow_speeds_up_on_one_link_when_another_ends_elsewhere():
    # Both cross link 0; the first is held to 2 B/s by link 1, so that the second has 8: 80 B in 10
    # s. The first needs 20 B / 2.
    assert ends((0, [0, 1], 0, 20), (0, [0], 0, 80), capacities=(10.0, 2.0)) == [10, 10]


def test_no_bytes_take_the_latency():
    assert ends((1, [0], 0.5, 0)) == [1.5]
    assert ends((1, [0], 0, 0)) == [1]


@pytest.mark.parametrize("links", [[], [-1], [-1, -1]])
def test_a_route_without_links_takes_the_latency(links):
    assert ends((1, links, 0.5, 100)) == [1.5]


def test_a_short_route_beside_a_long_one():
    assert ends((0, [0], 0, 100), (0, [1, -1], 0, 50), (2, [1], 0, 10)) == [10, 6, 4]


def test_flows_of_one_call_end_on_their_own():
    env = FluidEnvironment()
    fluid = FluidNetwork(env, np.array([LINK, LINK]))
    log = []
    routes = Routes(np.array([[0], [1], [1]]), np.array([0.0, 0.0, 1.0]))
    fluid.send(routes, np.array([100, 5, 5]), lambda which: log.append((env.now, which.tolist())))
    env.run()
    assert log == [(0.5, [1]), (1.5, [2]), (10.0, [0])]


def test_all_that_starts_at_one_instant_is_one_solve():
    combined = [(0, [0], 0, 100)] * 5
    assert run(*combined) == ([50] * 5, 2)  # one at the start, one at the end


def test_an_end_and_a_start_at_one_instant_are_one_solve():
    assert run((0, [0], 0, 100), (10, [0], 0, 100)) == ([10, 20], 3)
    assert run((10, [0], 0, 100), (0, [0], 0, 100)) == ([20, 10], 3)


def test_what_an_end_sets_off_is_in_the_same_solve():
    env = FluidEnvironment()
    fluid = FluidNetwork(env, np.array([LINK]))
    route = Routes(np.array([[0]]), np.array([0.0]))
    log = []

    def send_again(_):
        log.append((env.now, fluid.solves))
        if len(log) < 3:
            fluid.send(route, np.array([100]), send_again)

    fluid.send(route, np.array([100]), send_again)
    env.run()
    assert log == [(10, 1), (20, 2), (30, 3)]
    assert fluid.solves == 4


def test_small_differences_count_late_in_a_long_run_too():
    # The first has 100 ns without the second; the second ends 100 ns after it.
    begin = 1e6 + 1 / 3
    found = ends((0, [0], 1e-7, 1), (0, [0], 2e-7, 1), begin=begin)
    assert found == pytest.approx([begin + 0.2, begin + 0.2000001], rel=1e-15)


def sent(capacities, sends, changes=()):
    """When each transfer of ``sends`` = (start s, routes, bytes of each transfer) ends; ``changes``
    are (time s, link, B/s).
    """
    env = FluidEnvironment()
    network = FluidNetwork(env, np.array(capacities, float))
    ends = [np.full(len(nbytes), np.nan) for _, _, nbytes in sends]

    def at(time, action, *what):
        env.timeout(time).callbacks.append(lambda _: action(*what))

    def send(routes, nbytes, into):
        network.send(
            routes, np.array(nbytes, float), lambda which: into.__setitem__(which, env.now)
        )

    for (start, routes, nbytes), into in zip(sends, ends, strict=True):
        at(start, send, routes, nbytes, into)
    for time, link, rate in changes:
        at(time, network.set_capacity, np.array([link]), rate)
    env.run()
    return ends


def routes(links, share=None, latency=0.0):
    return Routes(
        np.array(links),
        np.full(len(links), latency),
        None if share is None else np.array(share, float),
    )


def test_a_transfer_takes_its_share_of_a_link():
    # Half of it crosses link 1 of 4 B/s: 8 B/s in all. Beside a whole one that is there from 5 s
    # on, 4/1.5 B/s each.
    half = routes([[0, 1]], [[1, 0.5]])
    assert sent([10, 4], [(0, half, [80])])[0] == 10
    first, second = sent([10, 4], [(0, half, [80]), (5, routes([[1]]), [40])])
    assert (first[0], second[0]) == pytest.approx((20, 20))


def test_transfers_of_one_call_that_differ_only_in_share_are_two_flows():
    ends = sent(
        [10, 4],
        [(0, routes([[0, 1], [0, 1], [0, 1]], [[1, 0.5], [1, 0.25], [1, 0.5]]), [30, 30, 30])],
    )
    assert ends[0].tolist() == pytest.approx(
        [9.375, 9.375, 9.375]
    )  # 10/3 B/s each would be 4.17 B/s of link 1, which has 4
    ends = sent([10, 4], [(0, routes([[0, 1], [0, 1]], [[1, 1], [1, 0]]), [16, 30])])
    assert ends[0].tolist() == pytest.approx([4, 4.6])  # 4 B/s and 6 B/s, then 10


def test_no_share_of_any_link_takes_the_latency():
    assert sent([10], [(1, routes([[0]], [[0]], latency=0.5), [100])])[0] == 1.5


def bundle(workers, servers):
    """Pushes of ``workers`` to all of ``servers`` on a switch of as many ranks.

    One flow per worker, then one per pair.
    """
    ranks = workers + servers
    switch, each = UniformSwitch(ranks, LINK, 0.25), np.arange(workers)
    into = ranks + workers + np.arange(servers)
    share = np.tile([1.0] + [1 / servers] * servers, (workers, 1))
    whole = Routes(
        np.column_stack([each, np.tile(into, (workers, 1))]), np.full(workers, 0.25), share
    )
    return (
        switch,
        whole,
        switch.routes(np.repeat(each, servers), np.tile(workers + np.arange(servers), workers)),
    )


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.data())
def test_a_bundle_ends_when_the_flows_to_each_server_do(workers, servers, data):
    starts = data.draw(st.lists(st.integers(0, 30), min_size=workers, max_size=workers))
    sizes = data.draw(st.lists(st.integers(1, 200), min_size=workers, max_size=workers))
    switch, whole, apart = bundle(workers, servers)
    each = [(starts[w], whole.take(np.array([w])), [sizes[w]]) for w in range(workers)]
    parts = np.arange(workers * servers).reshape(workers, servers)
    pairs = [
        (starts[w], apart.take(parts[w]), [sizes[w] / servers] * servers) for w in range(workers)
    ]
    found, expected = sent(switch.capacities, each), sent(switch.capacities, pairs)
    assert [end.max() for end in found] == pytest.approx([end.max() for end in expected], rel=1e-9)


def beside_the_workers(card):
    """Pushes of 3 workers to servers on their own nodes.

    Links are a GPU's way out (10 B/s), a card's out and in (``card``).

    One third stays inside the node. Returns the capacities, the bundles and the flows that they
    stand for.
    """
    gpu, out, into = np.arange(3), 3 + np.arange(3), 6 + np.arange(3)
    whole = [[gpu[w], out[w], *(into[s] for s in range(3) if s != w)] for w in range(3)]
    share = [[1, 2 / 3, 1 / 3, 1 / 3]] * 3
    apart = [
        [gpu[w], -1, -1] if s == w else [gpu[w], out[w], into[s]]
        for w in range(3)
        for s in range(3)
    ]
    return [LINK] * 3 + [card] * 6, routes(whole, share), routes(apart)


@pytest.mark.parametrize("card", [20.0, 2.0])
@pytest.mark.parametrize("starts", [[0, 0, 0], [0, 0, 200]])
def test_a_part_of_a_bundle_stays_inside_the_node(card, starts):
    # Where cards are slow the part inside is through before the others, which then end as those of
    # the bundle do.
    capacities, whole, apart = beside_the_workers(card)
    found = sent(
        capacities, [(start, whole.take(np.array([w])), [90]) for w, start in enumerate(starts)]
    )
    parts = [(start, apart.take(np.arange(3) + 3 * w), [30] * 3) for w, start in enumerate(starts)]
    expected = sent(capacities, parts)
    assert [end.max() for end in found] == pytest.approx([end.max() for end in expected], rel=1e-9)


def test_a_bundle_counts_as_one_flow_and_its_equal_parts_as_many():
    # 60 B to 3 servers beside a flow of 60 B on link 0 only, of 12 B/s.
    share = [1, 1 / 3, 1 / 3, 1 / 3]
    one = routes([[0, 1, 2, 3]], [share])
    three = routes([[0, 1, 2, 3]] * 3, [share] * 3)
    lone = (0, routes([[0]]), [60])
    assert [end[0] for end in sent([12] + [LINK] * 3, [(0, one, [60]), lone])] == [10, 10]
    assert [
        end[0] for end in sent([12] + [LINK] * 3, [(0, three, [20, 20, 20]), lone])
    ] == pytest.approx([20 / 3, 10])


def test_a_bundle_goes_on_by_new_routes_with_new_shares_when_a_server_is_cut():
    env = FluidEnvironment()
    network = FluidNetwork(env, np.array([10.0, 4.0, 4.0]))
    log = []
    around = routes([[0, 1]], [[1, 1]])
    both = routes([[0, 1, 2]] * 2, [[1, 0.5, 0.5]] * 2)
    network.send(
        both,
        np.array([20.0, 20.0]),
        lambda ended: log.append((env.now, ended.tolist())),
        lambda _, left: around,
    )
    env.timeout(2.5).callbacks.append(lambda _: network.set_capacity(np.array([2]), 0.0))
    env.run()
    assert log == [(7.5, [0, 1])]  # 10 B each are left at 2.5 s, at 2 B/s each


@pytest.mark.parametrize("few", [0, 1024], ids=["those joined to a change", "all"])
def test_an_end_is_felt_several_links_away(monkeypatch, few):
    # The first ends at 10 s, so that the second has 6 B/s instead of 5, the third 6 instead of 7,
    # and the last 8 instead of 7.
    monkeypatch.setattr(flows_under_way, "_FEW", few)
    chain = routes([[0, -1], [0, 1], [1, 2], [2, -1]])
    assert sent([10, 12, 14], [(0, chain, [50, 1000, 1000, 110])])[0][[0, 3]].tolist() == [10, 15]


@st.composite
def traffic(draw):
    """Capacities, calls of `sent` and changes of capacity, with links that come up alike at first
    and apart later.
    """
    count = draw(st.integers(1, 6))
    link, share = st.integers(0, count - 1), st.sampled_from([1.0, 0.5, 0.25])
    calls = []
    for _ in range(draw(st.integers(1, 8))):
        each = draw(
            st.lists(st.dictionaries(link, share, min_size=1, max_size=4), min_size=1, max_size=3)
        )
        hops = max(map(len, each))
        links = [[*crossed] + [-1] * (hops - len(crossed)) for crossed in each]
        shares = [[*crossed.values()] + [1.0] * (hops - len(crossed)) for crossed in each]
        nbytes = draw(st.lists(st.integers(1, 50), min_size=len(each), max_size=len(each)))
        calls.append((draw(st.integers(0, 20)), routes(links, shares), nbytes))
    changes = draw(st.lists(st.tuples(st.integers(0, 20), link, st.integers(1, 10)), max_size=2))
    return draw(st.lists(st.integers(1, 10), min_size=count, max_size=count)), calls, changes


def slowly(capacities, calls, changes):
    """What `sent` finds: every flow by itself, all rates anew whenever anything happens."""
    capacities = np.array(capacities, float)
    left = {
        (call, row): nbytes
        for call, (_, _, sizes) in enumerate(calls)
        for row, nbytes in enumerate(sizes)
    }
    ends = [np.full(len(sizes), np.nan) for _, _, sizes in calls]
    times = [start for start, *_ in calls] + [time for time, *_ in changes]
    now = 0.0
    while left:
        for time, link, rate in sorted(changes, key=lambda change: change[0]):
            if time <= now:
                capacities[link] = rate
        moving = [flow for flow in left if calls[flow[0]][0] <= now]
        links, share = (
            np.array([padded(getattr(calls[call][1], of)[row], pad) for call, row in moving])
            for of, pad in PADS
        )
        rates = max_min_rates(links.reshape(-1, 4), capacities, share.reshape(-1, 4))
        then = min(
            [now + left[f] / rate for f, rate in zip(moving, rates, strict=True)]
            + [time for time in times if time > now]
        )
        for flow, rate in zip(moving, rates, strict=True):
            left[flow] -= rate * (then - now)
            if left[flow] <= 1e-9:
                ends[flow[0]][flow[1]] = then
                del left[flow]
        now = then
    return ends


PADS = [("links", -1), ("share", 0.0)]


def padded(row, pad):
    return [*row, *[pad] * (4 - len(row))]


@pytest.mark.parametrize("few", [0, 1024], ids=["those joined to a change", "all"])
@settings(deadline=None)
@given(case=traffic())
def test_random_traffic_ends_when_every_flow_shared_anew_at_every_event(few, case):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flows_under_way, "_FEW", few)
        found = sent(*case)
    for ends, expected in zip(found, slowly(*case), strict=True):
        np.testing.assert_allclose(ends, expected, rtol=1e-7)
