"""Flows whose routes were announced beforehand move as they do without."""

import numpy as np
import pytest

from dpsim.network.flows.flows_under_way import Arrival, NumpyFlows
from dpsim.network.flows.fluid import flows_for
from dpsim.topology import Routes

# Two workers that push to three servers, of which the second counts as the first: links 2 and 3.
PUSHES = Routes(
    np.array([[0, 2, 3, 4], [1, 2, 3, 4]]),
    np.zeros(2),
    np.array([[1, 1 / 3, 1 / 3, 1 / 3], [1, 1 / 3, 1 / 3, 1 / 3]]),
)
# Crosses one of the links that the pushes do not tell apart.
OTHER = Routes(np.array([[3, -1]]), np.zeros(1))
CAPACITIES = np.array([10.0, 8.0, 5.0, 4.0, 6.0])


def let_in(flows, routes, row, call):
    nbytes = np.array([60.0])
    first = np.zeros(1, dtype=np.int64)
    flows.add(Arrival(routes, np.array([row]), nbytes, nbytes, np.ones(1), call, first))


def left(flows, count):
    calls, _ = flows.calls_of(np.arange(count))
    return [flows.amounts(row)[1] for row in np.argsort(calls)]


def test_flows_move_alike_beside_routes_that_were_not_expected():
    found = []
    for flows in (NumpyFlows(CAPACITIES), NumpyFlows(CAPACITIES, (PUSHES,))):
        steps = [(PUSHES, 0), (PUSHES, 1), (OTHER, 0), (PUSHES, 0), (PUSHES, 1)]
        for call, (routes, row) in enumerate(steps):
            let_in(flows, routes, row, call)
            flows.share()
            flows.move(0.5)
            found.append(left(flows, call + 1))
    half = len(found) // 2
    assert found[half:] == [pytest.approx(each, rel=1e-12) for each in found[:half]]


def test_a_change_of_a_link_stays_with_the_flows_that_it_met():
    changed = flows_for(CAPACITIES, (PUSHES,), seconds=0.0)
    changed.set_capacity(np.array([0]), 1.0)
    for flows, rate in ((changed, 1.0), (flows_for(CAPACITIES, (PUSHES,), seconds=0.0), 10.0)):
        let_in(flows, PUSHES, 0, 0)
        assert flows.share() == pytest.approx(60.0 / rate)
