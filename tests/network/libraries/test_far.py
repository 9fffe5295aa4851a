"""Routes between sites, which take longer than any hop that a library was measured over."""

import pytest

from dpsim.collectives import Groups
from dpsim.network.libraries import MpiModel
from dpsim.network.libraries.nccl import NcclModel
from dpsim.topology import ClusterConfig, build_cluster

LONG = 0.1  # s


def two_sites(latency, nodes=4):
    """Nodes in their order, the first half of them at one site, as 0, 0, 1, 1."""
    half = nodes // 2
    edges = [
        {"between": [f"node[{'|'.join(map(str, here))}]/*", name], "link": "ib-hdr"}
        for here, name in ((range(half), "east"), (range(half, nodes), "west"))
    ]
    between = {"between": ["east", "west"], "rate": "5 Gbit/s", "latency": f"{latency} s"}
    network = {"fabric": "custom", "edges": [*edges, between]}
    config = {"node": "dgx-a100", "nodes": nodes, "network": network}
    return build_cluster(ClusterConfig.model_validate(config))


def grows(model, nbytes=2**20, **settings):
    """By how many times the way between the sites an operation takes longer over a longer one."""
    seconds = [
        model(two_sites(latency), **settings).seconds_from_common_start(nbytes)
        for latency in (LONG, 2 * LONG)
    ]
    return (seconds[1] - seconds[0]) / LONG


@pytest.mark.parametrize(
    ("operation", "restriction", "crossings"),
    [
        # Of 4 hops round the ring two cross. 6 in a row have 3 of them, 3 in a row at most 2.
        ("all-reduce", "ring", 3),
        ("all-gather", "auto", 2),
        ("reduce-scatter", "auto", 2),
        ("broadcast", "auto", 2),
        # Node 1 is below 2, which is below 0: up twice over the long way, and down.
        ("all-reduce", "tree", 4),
        ("all-to-all", "auto", 1),
    ],
)
def test_nccl_sends_over_the_long_way_as_often_as_its_longest_chain(
    operation, restriction, crossings
):
    found = grows(NcclModel, operation=operation, restriction=restriction)
    assert found == pytest.approx(crossings)


def test_mpi_meets_one_partner_beyond_in_each_of_two_steps():
    near, far = (MpiModel(two_sites(latency)).seconds(8) for latency in (LONG, 2 * LONG))
    assert far["doubling"] - near["doubling"] == pytest.approx(2 * LONG)
    assert far["rabenseifner"] - near["rabenseifner"] == pytest.approx(4 * LONG)  # and back


def test_groups_inside_a_site_do_not_wait_for_the_way_between():
    def inside(latency):
        return NcclModel(two_sites(latency), groups=Groups(16)).seconds_from_common_start(2**20)

    assert inside(LONG) == inside(0)


def test_what_nodes_of_one_building_take_is_what_was_measured():
    """A hop of up to the measured one of 16 us is in the constants; what is beyond counts."""
    near = NcclModel(two_sites(0)).seconds_from_common_start(2**20)
    assert NcclModel(two_sites(5e-6)).seconds_from_common_start(2**20) == near
    assert NcclModel(two_sites(500e-6)).seconds_from_common_start(2**20) > near + 500e-6


def test_an_explanation_has_the_time_of_the_way():
    model = NcclModel(two_sites(LONG))
    for nbytes in (8, 2**28):
        found = model.explain(nbytes)
        assert found.predicted == pytest.approx(model.seconds_from_common_start(nbytes))
        assert found.dominant == "latency" or nbytes > 8
        assert sum(found.terms.values()) == pytest.approx(found.predicted)
        assert all(rival.predicted > 2 * LONG for rival in found.rivals)
