"""All-reduce by way of the CPUs, on nodes small enough to work out by hand."""

import numpy as np
import pytest

from dpsim.network import Background, Conditions, HostPathModel
from dpsim.topology import ClusterConfig, Hosts

INSTANT = {"rate": "1 PB/s", "latency": 0}
GPU = {"peak": {"fp32": "1 TFLOP/s"}, "memory": "16 GB", "memory_bandwidth": "1 TB/s"}


def hosts(nodes, gpus, memory=None, latency="0 s"):
    """Each GPU on a link of 1 MB/s to its CPU; network cards of 1 MB/s, on buses that take no
    time.
    """
    node = {
        "gpu": GPU,
        "devices": {"gpu": gpus, "cpu": 1},
        "edges": [{"between": ["gpu*", "cpu0"], "link": {"rate": "1 MB/s", "latency": latency}}],
        "capacities": {} if memory is None else {"cpu": memory},
        "nic_slots": ["cpu0"],
        "nic_bus": INSTANT,
        "nics": {"link": {"rate": "1 MB/s", "latency": 0}},
    }
    network = {"fabric": "single-switch", "nics_per_node": 1}
    return Hosts(ClusterConfig.model_validate({"nodes": nodes, "node": node, "network": network}))


def finishes(model, nbytes=1_000_000, starts=None):
    starts = np.zeros(len(model.hosts.workers)) if starts is None else np.array(starts, dtype=float)
    return model.finish(starts, nbytes).finishes


@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_through_one_node(gpus):
    """n / B in, g n / r in memory, n / B back: 1 s, half a second a GPU, 1 s."""
    np.testing.assert_allclose(
        finishes(HostPathModel(hosts(1, gpus), 2e6)), 2 + 0.5 * gpus, rtol=1e-9
    )


def test_latency_is_paid_both_ways():
    np.testing.assert_allclose(
        finishes(HostPathModel(hosts(1, 2, latency="250 ms"), 1e30)), 2.5, rtol=1e-9
    )


def test_copies_share_the_memory_of_the_cpu():
    """Four GPUs of 1 MB/s before a memory of 2 MB/s: 2 s each way."""
    np.testing.assert_allclose(
        finishes(HostPathModel(hosts(1, 4, memory="2 MB/s"), 1e30)), 4, rtol=1e-9
    )


def test_sums_wait_for_the_last_gpu_of_the_node():
    np.testing.assert_allclose(
        finishes(HostPathModel(hosts(1, 2), 1e30), starts=[0, 5]), 7, rtol=1e-9
    )


@pytest.mark.parametrize("nodes", [2, 4])
def test_between_nodes_the_cpus_have_a_ring(nodes):
    """2 (k-1)/k n / B between the cards, (k-1)/k n / r of sums."""
    ring = (nodes - 1) / nodes * (2 + 0.5)
    np.testing.assert_allclose(
        finishes(HostPathModel(hosts(nodes, 2), 2e6)), 1 + 2 * 0.5 + ring + 1, rtol=1e-9
    )


def test_a_late_node_holds_up_all():
    """Between two nodes the ring has two rounds of half.

    The last GPU is there at 10, its node's sum at 11.
    """
    ends = finishes(HostPathModel(hosts(2, 1), 1e30), starts=[0, 10])
    np.testing.assert_allclose(ends, 10 + 1 + 1 + 1, rtol=1e-9)


@pytest.mark.parametrize(("nodes", "gpus"), [(1, 1), (1, 4), (2, 2), (3, 1)])
def test_traffic_and_loads(nodes, gpus):
    model = HostPathModel(hosts(nodes, gpus), 1e30)
    moved, n = model.traffic(1000), nodes * gpus
    assert moved.sent.tolist() == [1000] * n
    assert moved.total == 2 * n * 1000 + 2 * (nodes - 1) * 1000
    loads = model.finish(np.zeros(n), 1000).loads
    names = {model.network.link_name(link): load for link, load in enumerate(loads)}
    copies = [load for name, load in names.items() if "gpu" in name]
    assert copies == [1000] * 2 * n
    out = [load for name, load in names.items() if name.endswith("->switch")]
    assert out == pytest.approx(
        [2 * (nodes - 1) / nodes * 1000] * nodes if nodes > 1 else [], rel=1e-2
    )


def test_its_name():
    assert HostPathModel(hosts(1, 1), 1e9).algorithm_for(8) == "host-path"


def test_other_traffic_takes_its_share_between_nodes_too():
    """Beside a flow from the first GPU to the second, the one's copy, the ring's rounds and the
    other's copy take twice as long.
    """
    two = hosts(2, 1)
    beside = Conditions((Background(int(two.workers[0]), int(two.workers[1])),))
    assert finishes(HostPathModel(two, 1e30)).max() == pytest.approx(1 + 2 * 0.5 + 1, rel=1e-9)
    assert finishes(HostPathModel(two, 1e30, beside)).max() == pytest.approx(
        2 + 2 * 1 + 2, rel=1e-9
    )
