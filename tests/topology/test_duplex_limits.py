"""What a link keeps of its rate while both directions carry.

One more capacity, and none where that is all of it.
"""

import numpy as np
import pytest
from pydantic import ValidationError

from dpsim.collectives import algorithm
from dpsim.hardware.calibration import Transport
from dpsim.network import FlowsModel, RoundsModel
from dpsim.topology import ClusterConfig, TestbedConfig, build_cluster, cluster_over_transport

RATE = 1e8
BYTES = 8_000_000


def cluster(duplex, fabric="single-switch", nodes=4):
    link = {
        "name": "l",
        "rate": {"value": f"{RATE} B/s", "source": "t"},
        "latency": {"value": "0 s", "source": "t"},
    }
    network = {"fabric": fabric, "nic": link, "duplex": duplex}
    return build_cluster(
        ClusterConfig.model_validate({"nodes": nodes, "node": "testbed-host", "network": network})
    )


def seconds(name, duplex, operation="all-reduce", model=RoundsModel, **options):
    where = cluster(duplex, **options)
    return float(
        model(algorithm(name, operation).schedule(where.ranks), where)
        .finish(np.zeros(where.ranks), BYTES)
        .finishes.max()
    )


def test_full_duplex_changes_nothing():
    plain = build_cluster(
        ClusterConfig.model_validate(
            {
                "nodes": 4,
                "node": "testbed-host",
                "network": {"fabric": "single-switch", "nic": "10GbE"},
            }
        )
    )
    same = build_cluster(
        ClusterConfig.model_validate(
            {
                "nodes": 4,
                "node": "testbed-host",
                "network": {"fabric": "single-switch", "nic": "10GbE", "duplex": 1},
            }
        )
    )
    assert plain.duplex_limits is same.duplex_limits is None
    assert np.array_equal(plain.capacities, same.capacities)


@pytest.mark.parametrize("duplex", [0.5, 0.8])
def test_rings_send_both_ways_and_broadcasts_do_not(duplex):
    assert seconds("ring", duplex) == pytest.approx(seconds("ring", 1) / duplex, rel=1e-4)
    assert seconds("tree", duplex, "broadcast") == seconds("tree", 1, "broadcast")


@pytest.mark.parametrize("fabric", ["single-switch", "leaf-spine", "ring", "full-mesh"])
def test_flows_and_rounds_agree(fabric):
    rounds, flows = (
        seconds("halving-doubling", 0.6, model=model, fabric=fabric)
        for model in (RoundsModel, FlowsModel)
    )
    assert flows == pytest.approx(rounds, rel=1e-6)
    assert rounds > seconds("halving-doubling", 1, fabric=fabric)


def test_one_direction_has_all_that_the_other_leaves():
    """1.2 times the rate for both: one with a tenth of a link leaves all of it to the other."""
    where = cluster(0.6, nodes=3)
    routes = where.routes(np.array([0, 1]), np.array([1, 0]))
    crossed = routes.links[0][routes.links[0] >= 0]
    assert {where.link_name(link) for link in crossed[-2:]} == {
        "node0/nic0<->switch",
        "node1/nic0<->switch",
    }
    assert where.capacities[crossed[-2:]] == pytest.approx([1.2 * RATE] * 2)


def test_a_transport_that_was_measured_so_is_used_so():
    config = TestbedConfig(hosts=2).cluster()
    assert cluster_over_transport(config, Transport(duplex=0.75)).network.duplex == 0.75
    assert cluster_over_transport(config, Transport(latency=1e-4)).network.duplex == 1


@pytest.mark.parametrize("wrong", [0.4, 1.1])
def test_out_of_range_is_refused(wrong):
    with pytest.raises(ValidationError, match="duplex"):
        cluster(wrong)
