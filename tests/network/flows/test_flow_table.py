"""Rows of the table of flows: added, removed, split."""

import numpy as np

from dpsim.network.flows.flow_table import FlowTable


def table(*links):
    """A table of one-byte flows numbered from 0 on, each over the classes given, the second of them
    by half.
    """
    flows = FlowTable()
    for number, crossed in enumerate(links):
        demand = [[1.0], [0.5]][: len(crossed)]
        flows.add(
            np.array([crossed]).T, np.array(demand), np.ones(1), np.ones(1), 7, np.array([number])
        )
    return flows


def rows(flows):
    """Of each flow its number and what it takes of each class, in order of numbers."""
    each = zip(flows.links.T.tolist(), flows.demand.T.tolist(), strict=True)
    takes = [{link: take for link, take in zip(*row, strict=True) if link} for row in each]
    return sorted(zip(flows.group.tolist(), takes, strict=True))


def test_flows_of_more_hops_widen_the_table():
    assert rows(table([1], [2, 3], [4])) == [(0, {1: 1}), (1, {2: 1, 3: 0.5}), (2, {4: 1})]


def test_those_that_stay_are_the_others():
    for gone in ([0], [4], [2], [0, 1], [0, 4], [3, 4], [1, 2, 3], [0, 1, 2, 3, 4]):
        flows = table(*([number + 1] for number in range(5)))
        flows.remove(np.array(gone))
        assert rows(flows) == [
            (number, {number + 1: 1}) for number in range(5) if number not in gone
        ]


def test_a_free_row_has_nothing_left_of_the_flow_before():
    flows = table([1, 2])
    flows.remove(np.array([0]))
    flows.add(np.array([[3]]), np.ones((1, 1)), np.ones(1), np.ones(1), 7, np.array([9]))
    assert rows(flows) == [(9, {3: 1})]


def test_a_split_lets_flows_cross_the_new_part_as_they_cross_the_old():
    flows = table([1, 2], [2], [2, 1])
    flows.split(np.array([0, 3, 4, 0, 0]))
    flows.split(np.array([0, 0, 5, 0, 0, 0]))
    assert rows(flows) == [
        (0, {1: 1, 3: 1, 2: 0.5, 4: 0.5, 5: 0.5}),
        (1, {2: 1, 4: 1, 5: 1}),
        (2, {2: 1, 4: 1, 5: 1, 1: 0.5, 3: 0.5}),
    ]


def test_what_is_left_and_when_the_next_one_ends():
    flows = table([1], [1])
    assert flows.next_end() == np.inf
    flows.rate[:] = [0.25, 0]
    assert flows.next_end() == 4
    flows.advance(4)
    assert flows.left.tolist() == [0, 1]
    assert flows.ended(4.0).tolist() == [0]
