"""A cluster on which all takes c times as long takes c times as long.

Nothing else has a scale: an amount of time or a rate that the engine kept to itself would show.
"""

import pytest

from dpsim import Scenario, simulate
from dpsim.workload import Layer, MeasuredTimes, Model, ModelProfile

SCALES = (2.0**10, 2.0**-10)
SERVERS = {"kind": "parameter-server", "servers": 2}
SHARDED = {"kind": "sharded", "library": "ideal", "unit_size": "1 MB"}
OUTER = {"every": 2, "fragments": 2, "overlap": 1}
STRATEGIES = {
    "buckets": {"overlap": {"kind": "buckets", "bucket_size": "3 MB"}},
    "auto": {"aggregation": {"kind": "allreduce", "library": "ideal", "algorithm": "auto"}},
    "priority": {"overlap": {"kind": "priority"}, "compression": {"kind": "top-k"}},
    "backup": {"sync": {"kind": "backup"}, "compression": {"kind": "powersgd"}},
    "sharded": {"aggregation": SHARDED, "overlap": {"kind": "wfbp"}},
    "hybrid": {"aggregation": {**SHARDED, "shard_group": "node"}},
    "diloco": {"sync": {"kind": "local-sgd", "every": 1, "group": "node", "outer": OUTER}},
    "servers": {"aggregation": SERVERS, "overlap": {"kind": "mg-wfbp"}},
    "stale": {"aggregation": SERVERS, "sync": {"kind": "ssp"}, "compression": {"kind": "int8"}},
    "asynchronous": {"aggregation": SERVERS, "sync": {"kind": "asp"}},
    "pairs": {"aggregation": {"kind": "gossip"}, "sync": {"kind": "asp"}},
    "host": {"aggregation": {"kind": "host"}},
}


def link(scale, gigabytes, microseconds=0):
    return {
        "rate": f"{gigabytes * 1e9 / scale!r} B/s",
        "latency": f"{microseconds * 1e-6 * scale!r} s",
    }


@pytest.fixture(scope="module")
def cluster_of(tmp_path_factory):
    """Two nodes of two GPUs, and a model of three layers, ``scale`` times as slow."""
    folder = tmp_path_factory.mktemp("scaled")

    def build(scale, strategy):
        times = MeasuredTimes(
            batch_sizes=(8,),
            forward_s=((1e-3 * scale, 2e-3 * scale, 5e-4 * scale),),
            backward_s=((2e-3 * scale, 4e-3 * scale, 1e-3 * scale),),
            optimizer_s=(1e-3 * scale,),
        )
        sizes = (400_000, 1_500_001, 70_000)
        layers = tuple(Layer(f"l{each}", "linear", (each,)) for each in sizes)
        path = folder / f"{scale}.json"
        path.write_text(ModelProfile.of(Model("three", layers, "sample", times), {}).to_json())
        gpu = {
            "peak": {"fp32": f"{1e13 / scale!r} FLOP/s"},
            "memory": "16 GB",
            "memory_bandwidth": f"{1e12 / scale!r} B/s",
        }
        node = {
            "gpu": gpu,
            "devices": {"gpu": 2, "cpu": 1},
            "edges": [{"between": ["gpu*", "cpu0"], "link": link(scale, 10, 2)}],
            "nic_slots": ["cpu0"],
            "nic_bus": link(scale, 10, 1),
            "nics": {"link": link(scale, 1, 5)},
        }
        rate = f"{1e10 / scale!r} B/s"
        own = {"parameter-server": {"update_rate": rate}, "host": {"sum_rate": rate}}
        aggregation = strategy.get("aggregation", {"kind": "allreduce", "library": "ideal"})
        aggregation = {**aggregation, **own.get(aggregation["kind"], {})}
        content = {
            "name": "scaled",
            "cluster": {"nodes": 2, "node": node, "network": {"fabric": "single-switch"}},
            "workload": {"model": {"profile": str(path)}, "batch_per_gpu": 8},
            "strategy": {**strategy, "aggregation": aggregation},
            "disturbance": {"jitter": {"kind": "gamma", "cv": 0.3}},
            "run": {"steps": 4, "warmup": 1},
        }
        return simulate(Scenario.model_validate(content))

    return build


@pytest.mark.parametrize("name", STRATEGIES)
def test_c_times_as_slow_takes_c_times_as_long(cluster_of, name):
    result = cluster_of(1.0, STRATEGIES[name])
    for scale in SCALES:
        scaled = cluster_of(scale, STRATEGIES[name])
        seconds = {part: spent * scale for part, spent in result.parts_s.items()}
        assert scaled.parts_s == pytest.approx(seconds, rel=1e-9, abs=1e-12 * scale)
        assert scaled.overlapped_comm_s == pytest.approx(result.overlapped_comm_s * scale, rel=1e-9)
        assert scaled.traffic.sent_in_total == result.traffic.sent_in_total
        assert (scaled.steps.versions == result.steps.versions).all()
