"""A node's profile from runs of microbenchmarks: what is kept, what judges, what a scenario takes."""

import os
from importlib.util import find_spec

import pytest

if find_spec("torch") is None and os.environ.get("CI") != "true":
    pytest.skip("torch is not installed: pip install -e '.[validate]'", allow_module_level=True)

import numpy as np

from dpsim import load_scenario, simulate
from dpsim.base.errors import DpsimError
from validate.microbench import RunFile, Settings
from validate.node.hardware import Here
from validate.node.node_profile import scenario_here
from validate.node.profile import base_of, profile_of

pytestmark = pytest.mark.torch

SIZES = [4096 * 4**power for power in range(7)]
PLACE = {"host": "here", "pid": 1, "device": "cpu", "device_name": "a processor"}
CPU = Here("cpu", 32, "a processor", 2**34)


def run_of(what, rows, ranks, **settings):
    return RunFile(
        what=(what,),
        settings=Settings(what=(what,), **settings),
        backend="gloo",
        ranks=tuple({"rank": rank, **PLACE} for rank in range(ranks)),
        machine={},
        rows=tuple({"what": what, **row} for row in rows),
    )


def collectives(ranks, factor, noise=0.0):
    """Gloo's all-reduce takes ``factor`` times what its model says, every second time more."""
    here = scenario_here(CPU, ranks)
    table = type(
        "T", (), {"backend": "gloo", "operation": "all-reduce", "ranks": ranks, "hosts": 1}
    )
    base = base_of(here, table)
    rows = []
    for number, size in enumerate(SIZES):
        taken = float(base.finish(np.zeros(ranks), size).finishes.max())
        seconds = factor * taken * (1 + noise * (number % 2))
        times = {"times_s": [seconds] * 3, "since_last_s": [seconds] * 3}
        rows.append({"operation": "all-reduce", "bytes": size, **times})
    return run_of("collectives", rows, ranks)


def products(fraction):
    peak, bandwidth = 50e9, 10e9  # of the testbed's processor
    rows = [
        {"kind": kind, "precision": "fp32", "flop_per_s": fraction * peak, "time_s": 1.0}
        for kind in ("gemm", "conv")
    ]
    rows.append({"kind": "memory", "precision": "fp32", "rate_Bps": fraction * bandwidth})
    rows.append({"kind": "launch", "precision": "fp32", "time_s": 2e-6})
    return run_of("products", rows, 2)


def test_two_thirds_are_kept_and_the_rest_judges():
    found = profile_of([collectives(2, 3.0), collectives(4, 3.0)], scenario_here(CPU, 4), "n", {})
    assert [(table.operation, table.ranks) for table in found.network] == [
        ("all-reduce", 2),
        ("all-reduce", 4),
    ]
    assert found.network[0].sizes_bytes == tuple(SIZES[0:1] + SIZES[2:4] + SIZES[5:])
    errors = found.residuals_by["all-reduce by gloo"]
    assert (errors.counted_on, errors.n) == ("held-out rows", 4)
    assert errors.worst_ape == pytest.approx(0, abs=1e-6)


def test_what_the_model_cannot_describe_shows_in_the_errors():
    found = profile_of([collectives(2, 3.0, noise=0.5)], scenario_here(CPU, 2), "n", {})
    assert found.residuals_by["all-reduce by gloo"].worst_ape > 0.1


def test_a_scenario_takes_computing_and_network(tmp_path):
    runs = [collectives(2, 3.0), products(0.4)]
    found = profile_of(runs, scenario_here(CPU, 2), "n", {})
    assert {name: one.value for name, one in found.efficiency.items()} == pytest.approx(
        {"gemm_fp32": 0.4, "conv_fp32": 0.4, "memory": 0.4, "launch": 2e-6}
    )
    (tmp_path / "profile.json").write_text(found.to_json())
    (tmp_path / "own.yaml").write_text(
        "name: own\n"
        "cluster: {nodes: 2, node: testbed-host, network: {fabric: single-switch,"
        " nic: {name: loopback, rate: 100 Gbit/s, latency: 10 us}}}\n"
        "workload: {model: resnet18, batch_per_gpu: 4}\n"
        "strategy: {aggregation: {kind: allreduce, library: gloo}, overlap: {kind: sequential}}\n"
        "run: {steps: 2, warmup: 0}\n"
    )
    plain = simulate(load_scenario(tmp_path / "own.yaml"))
    own = simulate(load_scenario(tmp_path / "own.yaml", ("calibration=profile.json",)))
    ratio = own.parts_s["exposed_comm"] / plain.parts_s["exposed_comm"]
    assert ratio == pytest.approx(3, rel=1e-3)
    assert own.parts_s["compute"] != plain.parts_s["compute"]
    assert not any("calibration" in each for each in own.warnings)


def test_a_profile_without_anything_to_judge_it_is_refused():
    with pytest.raises(DpsimError, match="must have collectives of several sizes or models"):
        profile_of([products(0.5)], scenario_here(CPU, 1), "n", {})
