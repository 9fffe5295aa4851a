"""Extreme values that are legal.

Each ends in a result, or is refused for the reason here, with a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from jail import Jail
from judge import Case, Verdict

BASE = """\
name: extreme
cluster:
  nodes: 2
  node: dgx1-v100
  gpus_per_node: 2
  network: {fabric: single-switch, nic: 25GbE}
workload: {model: {profile: model.json}, batch_per_gpu: 8}
strategy:
  aggregation: {kind: allreduce, algorithm: ring}
run: {steps: 3, warmup: 1, seed: 0, allow_out_of_memory: true}
"""
LATENCY = 'cluster.network.nic={{rate: {rate}, latency: "{latency}"}}'


def model(*parameters: int) -> str:
    """A profile of layers of so many parameters each, which compute 10 FLOP a parameter and
    sample.
    """
    layers = [
        {
            "name": f"l{i}",
            "kind": "linear",
            "parameters": [size],
            "forward_flop": 10 * size,
            "backward_flop": 20 * size,
        }
        for i, size in enumerate(parameters)
    ]
    return json.dumps({"name": "m", "layers": layers})


MEDIUM = model(*[100_000] * 20)
INDEPENDENT = ("strategy.aggregation={kind: parameter-server}", "strategy.sync={kind: asp}")
RESULTS: dict[str, tuple[str, ...]] = {
    "1 bit/s": (LATENCY.format(rate="1 bit/s", latency="1 us"),),
    "1 bit/s, independent workers": (LATENCY.format(rate="1 bit/s", latency="1 us"), *INDEPENDENT),
    "1 bit/s, flows": (LATENCY.format(rate="1 bit/s", latency="1 us"), "run.network_model=flows"),
    "1e15 B/s": (LATENCY.format(rate="1e15 B/s", latency="1 us"),),
    "1e15 B/s, no latency": (LATENCY.format(rate="1e15 B/s", latency="0 s"),),
    "1e15 B/s, no latency, flows": (
        LATENCY.format(rate="1e15 B/s", latency="0 s"),
        "run.network_model=flows",
    ),
    "1e15 B/s, no latency, independent workers": (
        LATENCY.format(rate="1e15 B/s", latency="0 s"),
        *INDEPENDENT,
    ),
    "no latency": (LATENCY.format(rate="25 Gbit/s", latency="0 s"),),
    "latency of 30 years": (LATENCY.format(rate="25 Gbit/s", latency="1e9 s"),),
    "latency of 30 years, independent workers": (
        LATENCY.format(rate="25 Gbit/s", latency="1e9 s"),
        *INDEPENDENT,
    ),
    "latency of 30 years, flows": (
        LATENCY.format(rate="25 Gbit/s", latency="1e9 s"),
        "run.network_model=flows",
    ),
    "one worker": ("cluster.nodes=1", "cluster.gpus_per_node=1"),
    "one worker, sharded": (
        "cluster.nodes=1",
        "cluster.gpus_per_node=1",
        "strategy.aggregation={kind: sharded}",
    ),
    "one worker, gossip": (
        "cluster.nodes=1",
        "cluster.gpus_per_node=1",
        "strategy.aggregation={kind: gossip}",
    ),
    "one independent worker and a server": (
        "cluster.nodes=1",
        "cluster.gpus_per_node=1",
        *INDEPENDENT,
    ),
    "batch 1": ("workload.batch_per_gpu=1",),
    "batch of 10^9": ("workload.batch_per_gpu=1000000000",),
    "more than a thousand buckets": ("workload.model=densenet201", "strategy.overlap={kind: wfbp}"),
    "buckets of a byte": ("strategy.overlap={kind: buckets, bucket_size: 1 B, first_bucket: 1 B}",),
    "buckets of a zettabyte": (
        "strategy.overlap={kind: buckets, bucket_size: 1e21 B, first_bucket: 1e21 B}",
    ),
    "staleness 0": (
        "strategy.aggregation={kind: parameter-server}",
        "strategy.sync={kind: ssp, staleness: 0}",
    ),
    "staleness huge": (
        "strategy.aggregation={kind: parameter-server}",
        f"strategy.sync={{kind: ssp, staleness: {9 * 10**18}}}",
    ),
    "staleness huge, all-reduce": ("strategy.sync={kind: ssp, staleness: 9000000000000000000}",),
    "huge jitter, lognormal": ("disturbance.jitter={kind: lognormal, sigma: 3}",),
    "huge jitter, pareto": ("disturbance.jitter={kind: pareto, tail_index: 1.000001}",),
    "huge jitter, gamma": ("disturbance.jitter={kind: gamma, cv: 3}",),
    "slow a million times": ("disturbance.slow=[{workers: [0], factor: 1000000}]",),
    "seed of 63 bits": ("run.seed=9223372036854775807",),
    "a failure each microsecond": ("disturbance.crashes={mtbf: 1 us}",),
    "a failure in 30,000 years": ("disturbance.crashes={mtbf: 1e12 s}",),
}
REFUSALS: dict[str, tuple[tuple[str, ...], str]] = {
    "a million nodes of flows": (
        ("cluster.nodes=1000000", "run.network_model=flows"),
        r"GB|\d+ CPU seconds",
    ),
    "50,000 independent workers": (
        ("cluster.nodes=25000", *INDEPENDENT),
        r"GB|\d CPU seconds|must be at most",
    ),
    "50,000 workers at six servers": (
        (
            "cluster.nodes=50000",
            "cluster.gpus_per_node=1",
            "strategy.aggregation={kind: parameter-server, servers: 6}",
        ),
        r"GB|CPU seconds",
    ),
    "100,000 workers at 50,000 servers": (
        ("cluster.nodes=50000", "strategy.aggregation={kind: parameter-server}"),
        r"routes from 100,000 workers to 50,000 servers would need about [\d,.e+]+ GB",
    ),
    "a billion steps": (("run.steps=1000000000",), "must be at most 1000000"),
    "more steps than can be kept": (
        ("run.steps=1000000", "cluster.nodes=1000"),
        "must be at most 10000 for 2000 workers",
    ),
    # Equal ones would be taken in one go.
    "a million steps": (
        (
            "run.steps=1000000",
            "workload.model=resnet152",
            "disturbance={jitter: {kind: lognormal, sigma: 0.1}}",
        ),
        "CPU seconds",
    ),
    "2^64 nodes": (("cluster.nodes=18446744073709551616",), "must be at most 1048576"),
    "everyone to everyone": (
        ("cluster.nodes=100000", "strategy.aggregation.algorithm=all-to-all"),
        r"would need about [\d,.e+]+ GB, and this machine has",
    ),
    "slices of a byte": (
        ("workload.model=gpt2", "strategy.overlap={kind: priority, slice_size: 1 B}"),
        "CPU seconds",
    ),
    "1e300 B/s": (
        (LATENCY.format(rate="1e300 B/s", latency="1 us"),),
        r"must be 0, or from 0.001 B/s to 1e\+18 B/s",
    ),
}


@pytest.fixture(scope="module")
def jail() -> Iterator[Jail]:
    with Jail(seconds=40) as started:
        yield started


def _tried(jail: Jail, sets: tuple[str, ...], profile: str = MEDIUM) -> Verdict:
    return jail.run(Case({"f.yaml": BASE, "model.json": profile}, sets=sets))


@pytest.mark.parametrize("name", RESULTS)
def test_an_extreme_value_has_a_result(jail: Jail, name: str) -> None:
    verdict = _tried(jail, RESULTS[name])
    assert verdict.what == "result", verdict


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_too_much_is_refused_with_a_number(jail: Jail, name: str) -> None:
    sets, output = REFUSALS[name]
    verdict = _tried(jail, sets)
    assert verdict.what == "refused", verdict
    assert re.search(output, verdict.why), verdict


MODELS = {
    "4 B": model(1),
    "10^13": model(10**13),
    "1000 x 10^10": model(*[10**10] * 1000),
    "2000 x 4 B": model(*[1] * 2000),
}
WAYS = {"all-reduce": (), "independent workers": INDEPENDENT} | {
    kind: (f"strategy.aggregation={{kind: {kind}}}",) for kind in ("sharded", "gossip")
}


@pytest.mark.parametrize("profile", MODELS)
@pytest.mark.parametrize("way", WAYS)
def test_the_smallest_and_the_largest_models(jail: Jail, profile: str, way: str) -> None:
    verdict = _tried(jail, WAYS[way], MODELS[profile])
    assert verdict.what == "result" or "CPU seconds" in verdict.why, verdict


@pytest.mark.parametrize("nodes", [100_000, pytest.param(500_000, marks=pytest.mark.wide)])
def test_hundreds_of_thousands_of_workers(jail: Jail, nodes: int) -> None:
    verdict = _tried(jail, (f"cluster.nodes={nodes}",))
    assert verdict.what == "result" or re.search(r"CPU seconds|GB", verdict.why), verdict
