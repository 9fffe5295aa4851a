"""Fabrics without switches: tori, rings, full meshes."""

import numpy as np
import pytest
from fabrics import between, every_pair, ports, walked

from dpsim.base.arrays import near_square
from dpsim.network import max_min_rates
from dpsim.topology import FullMesh, Ports, RingConfig, Torus


@pytest.mark.parametrize(
    ("dims", "links"),
    [
        ((4, 4), 64),
        ((4, 5), 80),
        ((3, 3, 3), 162),
        ((2, 4), 8 + 16),
        ((2, 2), 8),
        ((1, 5), 10),
        ((8,), 16),
    ],
)
def test_links_of_a_torus(dims, links):
    """Two out of each port in every dimension; one where the dimension is 2, none where it is 1."""
    assert len(Torus(ports(int(np.prod(dims))), dims).capacities) == links


@pytest.mark.parametrize(("dims", "cut"), [((4, 6), 8), ((8,), 2), ((4, 4, 4), 32)])
def test_bisection_of_a_torus_is_two_links_for_each_row_across(dims, cut):
    torus = Torus(ports(int(np.prod(dims))), dims)
    axis = int(np.argmax(dims))
    place = np.indices(dims)[axis].ravel()
    low = {f"port{p}" for p in np.flatnonzero(place < dims[axis] // 2)}
    assert between(torus, low.__contains__, lambda name: name not in low)[0] == cut


def test_routes_go_along_the_last_dimension_first_and_the_shorter_way():
    torus = Torus(ports(20), (4, 5))
    route = torus.routes(np.array([0]), np.array([1 * 5 + 3])).links[0]
    assert walked(torus, route) == ["port0", "port4", "port3", "port8"]


def test_half_way_round_both_ways_are_taken():
    ring = Torus(ports(64), (64,))
    source = np.arange(64)
    routes = ring.routes(source, (source + 32) % 64)
    ahead = (routes.links[:, 0] < 64).sum()
    assert 16 < ahead < 48
    assert (routes.links >= 0).all()


def test_a_shift_round_a_ring_runs_at_full_rate_and_one_of_three_steps_at_a_third():
    ring = RingConfig(fabric="ring").fabric_of(ports(12))
    for step in (1, 3):
        routes = ring.routes(np.arange(12), (np.arange(12) + step) % 12)
        np.testing.assert_allclose(max_min_rates(routes.links, ring.capacities), 10 / step)


@pytest.mark.parametrize(
    ("count", "dims"), [(16, (4, 4)), (12, (3, 4)), (7, (1, 7)), (1, (1, 1)), (1024, (32, 32))]
)
def test_near_squares(count, dims):
    assert near_square(count) == dims


def test_a_full_mesh_has_a_link_for_each_ordered_pair():
    mesh = FullMesh(ports(6))
    assert len(mesh.capacities) == 30
    assert (mesh.routes(*every_pair(6)).links[:, 0] == np.arange(30)).all()


@pytest.mark.parametrize("kind", [FullMesh, lambda ends: Torus(ends, (3,))])
def test_a_link_between_unequal_ports_has_the_lower_rate_and_the_longer_latency(kind):
    fabric = kind(Ports(3, np.array([10.0, 20.0, 30.0]), np.array([1.0, 2.0, 5.0])))
    edges = fabric.graph().edges
    assert (edges["port0", "port2"]["capacity"], edges["port0", "port2"]["latency"]) == (10, 5)
    assert (edges["port2", "port1"]["capacity"], edges["port2", "port1"]["latency"]) == (20, 5)
