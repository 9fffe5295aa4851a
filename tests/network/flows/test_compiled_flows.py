"""The compiled face of the flows under way does what numpy's does."""

import ctypes
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest

from dpsim.engine import calibrated
from dpsim.engine.at_servers import ServerCoordinator
from dpsim.network import Background, Conditions, LinkChange, max_min_rates
from dpsim.network import kernel as kernel_module
from dpsim.network.flows import ends_of_flows, fluid
from dpsim.network.flows.compiled_flows import CompiledFlows
from dpsim.network.flows.flows_under_way import Arrival, NumpyFlows
from dpsim.network.flows.reduction import reduction
from dpsim.network.kernel import _warn_that_numpy_is_slow, kernel
from dpsim.scenario import load_scenario
from dpsim.topology import Routes

needs_a_compiler = pytest.mark.skipif(kernel() is None, reason="there is no compiler")

CLUSTERS = {
    "single-switch": ["cluster.nodes=6"],
    "leaf-spine": ["cluster.nodes=12", "cluster.network={fabric: leaf-spine, nic: 25GbE}"],
    "several cards": ["cluster.nodes=5", "cluster.node=dgx-a100"],
    "both ways at once": ["cluster.nodes=5", "cluster.network.duplex=0.7"],
    "fewer servers": ["cluster.nodes=6", "strategy.aggregation.servers=4"],
    "own nodes": ["cluster.nodes=6", "strategy.aggregation.colocated=false"],
}


@pytest.fixture(
    params=[2, 12], ids=["hubs of short routes too", "hubs of long routes"], autouse=True
)
def long(monkeypatch, request):
    """Hubs are for long routes, which take large clusters: here also for short ones."""
    monkeypatch.setattr("dpsim.network.flows.reduction._LONG", request.param)
    reduction.cache_clear()
    return request.param


def at_servers(overrides):
    """The routes to and from the servers of an asynchronous quickstart, and their network."""
    servers = "strategy.aggregation.kind=parameter-server"
    scenario = load_scenario(
        "scenarios/quickstart.yaml", ["strategy.sync.kind=asp", servers, *overrides]
    )
    placed = ServerCoordinator(calibrated(scenario)).servers
    return placed.to_servers, placed.from_servers, placed.network


def faces(capacities, tables):
    """Both, with nothing under way."""
    return NumpyFlows(capacities), CompiledFlows(kernel(), capacities, tables)


def sent(face, table, rows, sizes, call):
    count = len(rows)
    numbers = np.arange(count)
    face.add(Arrival(table, np.array(rows), sizes, sizes, np.ones(count), call, numbers))


def by_flow(face, count):
    """What is left of each flow, in the order of calls and numbers within them."""
    calls, numbers = face.calls_of(np.arange(count))
    return np.array([face.amounts(row)[1] for row in np.lexsort((numbers, calls))])


@pytest.mark.pairwise
@needs_a_compiler
@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("links", ["unequal", "equal", "of two speeds"])
def test_flows_at_servers_move_alike(cluster, links):
    random = np.random.default_rng(0)
    push, pull, network = at_servers(CLUSTERS[cluster])
    # Unequal links hold groups one by one; nodes of equal ones are filled as one.
    speeds = {"unequal": random.uniform(0.5, 1.5, 1000), "equal": [1.0], "of two speeds": [1, 0.5]}
    capacities = network.capacities * random.choice(speeds[links], len(network.capacities))
    both = faces(capacities, (push, pull))
    count = 0
    for call in range(40):
        table = (push, pull)[call % 2]
        rows = random.choice(len(table.links), random.integers(1, 5), replace=False)
        sizes = random.uniform(1e6, 1e8, len(rows))
        for face in both:
            sent(face, table, rows, sizes, call)
        count += len(rows)
        seconds = [face.share() for face in both]
        assert seconds[1] == pytest.approx(seconds[0], rel=1e-9)
        ended = [sorted(zip(*face.end(seconds[0], 1.0), strict=True)) for face in both]
        assert ended[1] == ended[0]
        count -= len(ended[0])
        expected, found = (by_flow(face, count) for face in both)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-2)


@needs_a_compiler
def test_equal_nodes_with_equally_many_flows_are_filled_as_one():
    push, pull, network = at_servers(["cluster.nodes=16"])
    cells = reduction((push, pull), network.capacities.tobytes()).cells
    assert len(cells.kind) == 16
    assert np.ptp(cells.kind) == 0
    _, face = faces(network.capacities, (push, pull))
    # A node with two pushes, two with one, and all others.
    sent(face, push, [0, 8, 9, 16], np.full(4, 1e8), 0)
    face.share()
    assert face._network.chief_count == 3
    face.end(1e9, 1.0)
    face.share()
    assert face._network.chief_count == 1


@needs_a_compiler
@pytest.mark.parametrize("seed", range(4))
def test_flows_in_parts_that_share_no_links_move_alike(seed):
    """Three parts of ten links; routes of up to three of them, some taken by many flows."""
    random = np.random.default_rng(seed)
    part = 10 * random.integers(0, 3, 30)
    links = np.array([first + random.choice(10, 3, replace=False) for first in part])
    links[random.random(links.shape) < 0.3] = -1
    table = Routes(links, np.zeros(30), random.choice([0.5, 1.0], links.shape))
    capacities = random.uniform(1e8, 1e9, 30)
    capacities[3] = 0.0  # is cut
    both = faces(capacities, (table,))
    count = 0
    for call in range(80):
        rows = random.integers(0, 30, random.integers(1, 4))
        sizes, numbers = random.uniform(1e6, 1e8, len(rows)), np.arange(len(rows))
        weights = random.integers(1, 3, len(rows)).astype(float)
        for face in both:
            face.add(Arrival(table, rows, sizes, sizes, weights, call, numbers))
        inside = [sorted(zip(*face.end(0.0, 1.0), strict=True)) for face in both]
        assert inside[1] == inside[0]  # what crosses no link
        seconds = [face.share() for face in both]
        assert seconds[1] == pytest.approx(seconds[0], rel=1e-9)
        # To the first end, or not so far: what others do must not depend on it.
        moved = random.choice([0.3, 1.0]) * seconds[0] if np.isfinite(seconds[0]) else 1.0
        ended = [sorted(zip(*face.end(moved, 1.0), strict=True)) for face in both]
        assert ended[1] == ended[0]
        count += len(rows) - len(inside[0]) - len(ended[0])
        expected, found = (by_flow(face, count) for face in both)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-2)
    assert count > 20


@needs_a_compiler
def test_a_reduction_keeps_the_rates_of_any_flows(long):
    random = np.random.default_rng(0)
    hubs = 0
    for cluster in reversed(CLUSTERS.values()):
        *tables, network = at_servers(cluster)
        found = reduction(tuple(tables), network.capacities.tobytes())
        links = np.concatenate([table.links for table in tables])
        # Short routes are left as they are, but for links that all of them cross alike.
        assert len(found.hub_of) < len(links) or long > 2
        assert len(found.own.link) < (links >= 0).sum() / (8 if long == 2 else 2)
        hubs += len(found.hub.link)
    assert hubs > 0 or long > 2
    face = CompiledFlows(kernel(), network.capacities, tuple(tables))
    rows = random.integers(0, len(tables[0].links), 60)
    sent(face, tables[0], rows, np.full(60, 1e9), 0)
    share = np.asarray(tables[0].share)[rows]
    rates = max_min_rates(tables[0].links[rows], network.capacities, share=share)
    assert face.share() == pytest.approx(1e9 / rates.max(), rel=1e-9)
    face.move(1.0)
    np.testing.assert_allclose(by_flow(face, 60), 1e9 - rates, rtol=1e-9)


CONDITIONS = {
    "none": Conditions(),
    "other traffic": Conditions((Background(0, 9, 1e9), Background(3, 11))),
    "links change": Conditions((), (LinkChange(0.01, 3, 0.3), LinkChange(-1.0, 7, 0.5))),
}


@needs_a_compiler
@pytest.mark.parametrize("conditions", CONDITIONS)
def test_ends_are_those_of_numpy(monkeypatch, conditions):
    push, _, network = at_servers(CLUSTERS["single-switch"])
    starts = np.random.default_rng(0).uniform(0, 0.05, len(push.links))
    starts[::4] = starts[0]

    def ends(worth):
        monkeypatch.setattr(fluid, "MUCH_SHARING", worth)
        return ends_of_flows(network, push, starts, 1e8, CONDITIONS[conditions])

    by_numpy, compiled = ends(np.inf), ends(0.0)
    np.testing.assert_allclose(compiled, by_numpy, rtol=1e-9)
    assert (compiled != by_numpy).any()  # they were not the same loops


@needs_a_compiler
def test_a_route_that_was_not_expected_is_taken():
    push, pull, network = at_servers(CLUSTERS["single-switch"])
    both = NumpyFlows(network.capacities), CompiledFlows(kernel(), network.capacities, (push,))
    for face in both:
        sent(face, push, [0, 1], np.full(2, 1e8), 0)
        face.share()
        sent(face, pull, [3], np.full(1, 1e8), 1)
    assert both[1].share() == pytest.approx(both[0].share(), rel=1e-12)


@needs_a_compiler
def test_flows_over_a_cut_link_are_reported():
    push, _, network = at_servers(CLUSTERS["single-switch"])
    both = faces(network.capacities, (push,))
    only_first = int(push.links[0, 0])
    assert (push.links[1:] != only_first).all()
    for face in both:
        sent(face, push, [1, 0, 2], np.full(3, 1e8), 0)
        assert not face.any_cut
        face.set_capacity(np.array([only_first]), 0.0)
        assert face.any_cut
        assert face.over_cut_links().tolist() == [1]
        face.remove(np.array([0, 1]))
        assert face.calls_of(np.array([0]))[1].tolist() == [2]


def test_a_route_without_links_is_through_at_once():
    single = Routes(np.array([[-1, -1], [0, 1]]), np.zeros(2), np.ones((2, 2)))
    for face in faces(np.array([5.0, 10.0]), (single,)) if kernel() else ():
        sent(face, single, [0, 1], np.array([10.0, 10.0]), 0)
        assert face.end(0.0, 0.0) == ([0], [0])
        assert face.share() == 2


def test_without_the_library_numpy_does_it_and_one_line_says_so(monkeypatch, capsys):
    monkeypatch.setattr("dpsim.network.kernel._library", lambda: None)
    _warn_that_numpy_is_slow.cache_clear()
    routes = Routes(np.array([[0]]), np.zeros(1))
    for _ in range(2):
        assert isinstance(fluid.flows_for(np.ones(1), (routes,), 1e9), NumpyFlows)
    (line,) = capsys.readouterr().err.splitlines()
    assert "40 times more slowly" in line


@pytest.mark.parametrize("compiler", ["cc", "", "no-such-compiler", "false"])
def test_the_library_is_built_where_there_is_a_compiler(tmp_path, monkeypatch, compiler):
    if compiler == "cc" and kernel() is None:
        pytest.skip("there is no compiler")
    monkeypatch.setenv("CC", compiler)
    room, ours = tmp_path / "dpsim" / "network", Path(kernel_module.__file__)
    (room / "built").mkdir(parents=True)
    (room / "kernel.py").write_bytes(ours.read_bytes())
    (room / "x.c").write_text("int seven(void) { return 7; }")
    (room / "built" / "loops-0.so").write_bytes(b"of other C files")
    build = run_path(str(ours.parents[2] / "build_loops.py"))["build"]
    library = build(tmp_path)
    if compiler == "cc":
        assert ctypes.CDLL(str(library)).seven() == 7
    assert list(room.rglob("*.so")) == ([library] if compiler == "cc" else [])


def test_little_work_is_left_to_numpy():
    routes = Routes(np.array([[0]]), np.zeros(1))
    assert isinstance(fluid.flows_for(np.ones(1), (routes,), 0.1), NumpyFlows)
