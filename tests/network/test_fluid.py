"""Known timelines of flows on links of 10 B/s."""

import numpy as np
import pytest
import simpy

from dpsim.network import FluidNetwork
from dpsim.topology import Routes

LINK = 10.0


def run(*sends, capacities=(LINK, LINK), begin=0.0):
    """When each of ``sends`` = (start s, links, latency s, bytes) ends, and how often rates were solved."""
    env = simpy.Environment(begin)
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


def test_two_that_start_together_share():
    assert ends((0, [0], 0, 100), (0, [0], 0, 100)) == [20, 20]


def test_two_on_different_links_do_not():
    assert ends((0, [0], 0, 100), (0, [1], 0, 100)) == [10, 10]


def test_a_second_flow_takes_half_from_when_it_starts():
    # The first has 60 B left at 4 s, and 5 B/s from then on: until 16. The second then has 40 B left, and 10 B/s: until 20.
    assert ends((0, [0], 0, 100), (4, [0], 0, 100)) == [16, 20]


def test_a_flow_takes_no_share_while_it_is_in_its_latency():
    assert ends((0, [0], 0, 100), (0, [0], 4, 100)) == [16, 20]


def test_the_slowest_link_of_a_route_counts():
    assert ends((0, [0, 1], 0, 100), capacities=(10.0, 4.0)) == [25]


def test_a_flow_speeds_up_on_one_link_when_another_ends_elsewhere():
    # Both cross link 0; the first is held to 2 B/s by link 1, so that the second has 8: 80 B in 10 s. The first needs 20 B / 2.
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
    env = simpy.Environment()
    fluid = FluidNetwork(env, np.array([LINK, LINK]))
    log = []
    routes = Routes(np.array([[0], [1], [1]]), np.array([0.0, 0.0, 1.0]))
    fluid.send(routes, np.array([100, 5, 5]), lambda which: log.append((env.now, which.tolist())))
    env.run()
    assert log == [(0.5, [1]), (1.5, [2]), (10.0, [0])]


def test_all_that_starts_at_one_instant_is_one_solve():
    together = [(0, [0], 0, 100)] * 5
    assert run(*together) == ([50] * 5, 2)  # one at the start, one at the end


def test_an_end_and_a_start_at_one_instant_are_one_solve():
    assert run((0, [0], 0, 100), (10, [0], 0, 100)) == ([10, 20], 3)
    assert run((10, [0], 0, 100), (0, [0], 0, 100)) == ([20, 10], 3)


def test_what_an_end_sets_off_is_in_the_same_solve():
    env = simpy.Environment()
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
    # The first has 100 ns alone; the second ends 100 ns after it.
    begin = 1e6 + 1 / 3
    found = ends((0, [0], 1e-7, 1), (0, [0], 2e-7, 1), begin=begin)
    assert found == pytest.approx([begin + 0.2, begin + 0.2000001], rel=1e-15)
