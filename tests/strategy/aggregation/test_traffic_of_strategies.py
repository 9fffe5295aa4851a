"""Bytes of a step of each aggregation, as its formula has them: m workers, 2 MB of gradients."""

import pytest

from dpsim import simulate
from dpsim.collectives import gossip_turns

S = 2_000_000  # bytes
MANY = pytest.mark.parametrize("m", [2, 3, 4, 5, 8])
OVERLAPS = pytest.mark.parametrize("overlap", ["sequential", "wfbp", "priority"])


def traffic(scenario):
    return simulate(scenario).traffic


@pytest.mark.pairwise
@MANY
@OVERLAPS
@pytest.mark.parametrize(
    ("algorithm", "total", "busiest"),
    [
        ("ring", lambda m: 2 * (m - 1), lambda m: 2 * (m - 1) / m),
        ("round-robin", lambda m: 2 * (m - 1), lambda m: 2 * (m - 1) / m),
        ("all-to-all", lambda m: m * (m - 1), lambda m: m - 1),
        ("master-worker", lambda m: 2 * (m - 1), lambda m: m - 1),
        ("tree", lambda m: 2 * (m - 1), lambda m: (m - 1).bit_length()),
    ],
)
def test_an_all_reduce(tiny, algorithm, total, busiest, m, overlap):
    sent = traffic(
        tiny(m, aggregation={"kind": "allreduce", "algorithm": algorithm}, overlap=overlap)
    )
    assert sent.sent_in_total == total(m) * S
    assert sent.sent_by_busiest == pytest.approx(
        busiest(m) * S, rel=1e-4
    )  # chunks of whole elements


@pytest.mark.pairwise
@MANY
@pytest.mark.parametrize("sync", ["bsp", "ssp", "asp", {"kind": "backup", "backups": 1}], ids=str)
@pytest.mark.parametrize(
    "servers", [{}, {"servers": 3}, {"colocated": False}], ids=["one-a-node", "three", "elsewhere"]
)
def test_a_parameter_server(tiny, sync, servers, m):
    """m S are pushed and m S pulled."""
    sent = traffic(tiny(m, aggregation={"kind": "parameter-server", **servers}, sync=sync))
    assert (sent.sent_in_total, sent.sent_by_busiest) == (2 * m * S, S)


def test_replicas_of_a_parameter_server_pass_on_what_they_hold(tiny):
    servers = {"kind": "parameter-server", "servers": 4, "replicas": 3}
    assert traffic(tiny(4, aggregation=servers)).sent_in_total == (4 + 4 + 2) * S


@MANY
@pytest.mark.parametrize("stage", [1, 2])
def test_sharded_optimiser_state_and_gradients(tiny, stage, m):
    """2 (m-1)/m S a worker, as of an all-reduce; (m-1)/m less of weights of 2 bytes."""
    full, half = (
        traffic(tiny(m, aggregation={"kind": "sharded", "stage": stage, "weight_bytes": size}))
        for size in (4, 2)
    )
    assert full.sent_in_total == 2 * (m - 1) * S
    assert full.sent_by_busiest == pytest.approx(2 * (m - 1) / m * S, rel=1e-4)
    assert half.sent_in_total == 1.5 * (m - 1) * S


@MANY
def test_sharded_weights(tiny, m):
    """3 (m-1)/m S a worker, however the layers are divided into units."""
    units, one = (
        traffic(tiny(m, aggregation={"kind": "sharded", "unit_size": size}))
        for size in ("1 MB", "2 MB")
    )
    assert units.sent_in_total == one.sent_in_total == 3 * S * (m - 1)
    assert units.sent_by_busiest == pytest.approx(3 * (m - 1) / m * S, rel=1e-4)


@pytest.mark.parametrize("m", [2, 4, 5, 8, 9])
@pytest.mark.parametrize(
    ("graph", "degree"),
    [
        ("ring", lambda m: min(m - 1, 2)),
        ("exponential", lambda m: 1),
        ("random-pairs", lambda m: m // 2 * 2 / m),
        ("torus", lambda m: {2: 1, 4: 2, 5: 2, 8: 3, 9: 4}[m]),
    ],
)
def test_gossip(tiny, graph, degree, m):
    """Its degree times S a worker."""
    sent = traffic(tiny(m, aggregation={"kind": "gossip", "graph": graph}))
    assert sent.sent_in_total == pytest.approx(degree(m) * m * S)
    assert sent.sent_by_busiest <= 4 * S


@pytest.mark.pairwise(strength=1)
@pytest.mark.parametrize("m", [2, 4, 5, 9])
@pytest.mark.parametrize("graph", ["ring", "exponential", "random-pairs", "torus"])
def test_asynchronous_gossip(tiny, graph, m):
    """Each iteration of a worker that has a partner is an exchange with one, S each way."""
    partners = m // 2 * 2 if graph == "random-pairs" else m
    assert (
        traffic(tiny(m, aggregation={"kind": "gossip", "graph": graph}, sync="asp")).sent_in_total
        == 2 * partners * S
    )
    assert gossip_turns(graph, m)[0].ranks == m


@MANY
def test_through_the_hosts(tiny, m):
    """Each worker copies S in and S out; the nodes' CPUs, one a worker here, have a ring between
    them.
    """
    sent = traffic(tiny(m, aggregation="host"))
    assert sent.sent_in_total == (2 * m + 2 * (m - 1)) * S
    assert sent.sent_by_busiest == S


def test_a_single_process(tiny):
    """GPU 0 sends its weights to three others, and their gradients come back; a tree has it send
    ceil(log2 4) times.
    """
    node = {**tiny().cluster.node.model_dump(mode="json"), "devices": {"gpu": 4, "cpu": 1}}
    node["edges"] = [{"between": ["gpu*", "cpu0"], "link": {"rate": "1 MB/s", "latency": 0}}]
    cluster = {"nodes": 1, "node": node}
    host = {
        "kind": "host",
        "way": "single-process",
        "bytes_per_sample": "1 kB",
        "bytes_per_output": "100 B",
    }
    sent = traffic(tiny(4, aggregation=host, cluster=cluster))
    assert sent.sent_in_total == pytest.approx(2 * 3 * S + 4 * 8000 + 4 * 800, rel=1e-9)


@pytest.mark.parametrize("overlap", ["sequential", "wfbp", "mg-wfbp", "buckets", "priority"])
@pytest.mark.parametrize("aggregation", ["allreduce", "parameter-server", "host", "sharded"])
def test_no_overlap_policy_moves_a_byte_twice(tiny, aggregation, overlap):
    slices = {"kind": overlap, "slice_size": "100 kB"} if overlap == "priority" else overlap
    one, other = (
        traffic(tiny(4, aggregation=aggregation, overlap=policy))
        for policy in (slices, "sequential")
    )
    assert one.sent_in_total == other.sent_in_total
