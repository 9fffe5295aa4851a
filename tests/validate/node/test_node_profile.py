"""A node's profile from runs of microbenchmarks: what is kept, what judges, what a scenario takes."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

import numpy as np

from dpsim import load_scenario, simulate
from dpsim.base.errors import DpsimError
from dpsim.disturbance import DisturbanceConfig
from dpsim.engine import all_slow_downs, prepare, slow_downs
from validate.microbench.models import BUILT_IN
from validate.microbench.run_file import RunFile
from validate.microbench.settings import Settings
from validate.node.hardware import Here, cluster_here
from validate.node.node_profile import scenario_here
from validate.node.profile import base_of, profile_of
from validate.node.rows import Attempt, usual_s
from validate.node.run import divide_as_measured
from validate.node.strategies import served_item, wrapped_item
from validate.records import records_of

pytestmark = pytest.mark.torch

HERE = Path(__file__).parent
ROOT = Path(__file__).parents[3]
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
    assert found.residuals_of == "all-reduce by gloo"  # those that a prediction names
    assert (errors.counted_on, errors.n) == ("held-out rows", 4)
    assert errors.worst_ape == pytest.approx(0, abs=1e-6)


def test_what_the_model_cannot_describe_shows_in_the_errors():
    found = profile_of([collectives(2, 3.0, noise=0.5)], scenario_here(CPU, 2), "n", {})
    assert found.residuals_by["all-reduce by gloo"].worst_ape > 0.1


def test_a_scenario_takes_computing_and_network(tmp_path):
    runs = [collectives(2, 3.0), products(0.4)]
    found = profile_of(runs, scenario_here(CPU, 2), "n", {})
    assert {name: one.value for name, one in found.constants.items()} == pytest.approx(
        {"product_fp32": 0.4, "conv_fp32": 0.4, "memory": 0.4, "launch": 2e-6}
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


def layers(seconds, spread_of_all, **words):
    """Layers of ``seconds`` a sample, and what all ranks take at once, in one run."""
    rows = [
        {
            "model": "m",
            "device": "a processor",
            "precision": "fp32",
            "layers": ["a"],
            "batch_size": batch,
            "optimizer": "momentum",
            "optimizer_times_s": [0.0] * 3,
            "optimizer_time_s": 0.0,
        }
        | {f"{way}_pass_time_s": batch * seconds / 2 for way in ("forward", "backward")}
        | {f"{way}_pass_times_s": [batch * seconds / 2] * 3 for way in ("forward", "backward")}
        | {f"{way}_shares": [[1.0]] * 3 for way in ("forward", "backward")}
        for batch in BATCHES
    ]
    run = run_of("layers", rows, 4, **words)
    return run.model_copy(update={"rows": (*run.rows, *spread_of_all.rows)})


BATCHES = (2, 4, 8, 16)


def spread(seconds, sigma, slower=1.0, ranks=4):
    """Steps of all ranks with lognormal times, of which the last one's are ``slower`` for good."""
    generator = np.random.default_rng(0)
    rows = []
    for batch in BATCHES:
        times = batch * seconds * np.exp(sigma * generator.standard_normal((400, ranks)))
        times[:, -1] *= slower
        steps = {"model": "m", "precision": "fp32", "steps_s": times.tolist()}
        rows.append({**steps, "batch_size": batch, "optimizer": "momentum"})
    return run_of("spread", rows, ranks)


def test_ranks_at_once_have_a_pace_and_a_jitter_that_one_batch_size_judges():
    runs = [layers(0.01, spread(0.012, 0.1)), spread(0.009, 0.05, ranks=2)]
    found = profile_of(runs, scenario_here(CPU, 4), "n", {})
    two, four = found.spreads
    assert (two.ranks, four.ranks) == (2, 4)
    assert (two.pace, four.pace) == pytest.approx((0.75, 1), rel=0.02)
    sigmas = (two.jitter["sigma"], four.jitter["sigma"])
    assert sigmas == pytest.approx((0.05, 0.1), rel=0.1)
    errors = found.residuals_by["the slowest rank's computing, batch sizes left out"]
    assert (errors.counted_on, errors.n) == ("held-out rows", 2)
    assert errors.worst_ape < 0.03


def test_layers_take_what_all_ranks_take_at_once():
    found = profile_of([layers(0.01, spread(0.012, 0.1))], scenario_here(CPU, 4), "n", {})
    (model,) = found.compute
    whole = [
        sum(forward) + sum(backward)
        for forward, backward in zip(model.forward_s, model.backward_s, strict=True)
    ]
    assert whole == pytest.approx([0.012 * batch for batch in BATCHES], rel=0.02)


def test_a_rank_that_stays_slower_counts_as_spread():
    here = scenario_here(CPU, 4)
    profiles = [
        profile_of([layers(0.01, spread(0.01, 0.02, slower))], here, "n", {})
        for slower in (1.0, 1.08)
    ]
    of_level, of_apart = (float(each.spreads[0].jitter["sigma"]) for each in profiles)
    # Of four logarithms one is log 1.08 above the others: a standard deviation of half of that.
    assert of_apart**2 - of_level**2 == pytest.approx((np.log(1.08) / 2) ** 2, rel=0.2)


def with_spread(tmp_path, jitter):
    found = profile_of([collectives(2, 3.0)], scenario_here(CPU, 2), "n", {})
    own = {**json.loads(found.to_json()), "spreads": [{"ranks": 2, "pace": 1, "jitter": jitter}]}
    (tmp_path / "own.json").write_text(json.dumps(own))
    file = f"calibration={tmp_path / 'own.json'}"
    sets = (file, "run.steps=400", "strategy.overlap.kind=sequential")
    return load_scenario(HERE / "small.yaml", sets)


def test_a_step_waits_for_the_slowest_of_the_ranks_as_for_stated_jitter(tmp_path):
    level = with_spread(tmp_path, {"kind": "correlated", "sigma": 0, "stall": 1})
    stated = with_jitter(level, {"kind": "lognormal", "sigma": 0.1})
    measured = with_spread(tmp_path, {"kind": "correlated", "sigma": 0.1, "stall": 1})
    waits = [simulate(each).parts_s["straggler_wait"] for each in (level, stated, measured)]
    assert waits[0] == 0
    assert waits[2] == pytest.approx(waits[1], rel=0.1)


def with_jitter(scenario, jitter):
    disturbance = DisturbanceConfig.model_validate({"jitter": jitter})
    return scenario.model_copy(update={"disturbance": disturbance})


def test_measured_and_stated_jitter_are_draws_of_their_own(tmp_path):
    scenario = with_spread(tmp_path, {"kind": "lognormal", "sigma": 0.1})
    job = prepare(with_jitter(scenario, {"kind": "lognormal", "sigma": 0.1}))
    stated = slow_downs(job)
    own = all_slow_downs(job) / stated
    correlation = np.corrcoef(np.log(stated).ravel(), np.log(own).ravel())[0, 1]
    assert abs(correlation) < 0.15


def test_ranks_that_really_compute_are_not_held_up_by_their_own_spread(tmp_path):
    job = prepare(with_spread(tmp_path, {"kind": "correlated", "sigma": 0.1}))
    assert (slow_downs(job) == 1).all()
    assert all_slow_downs(job).std() > 0.05


def test_a_spread_that_is_no_jitter_is_refused_in_one_line(tmp_path):
    with pytest.raises(
        DpsimError, match=r"spreads\.jitter.*sigma.*must be at most 3.0, but got 4.0"
    ):
        with_spread(tmp_path, {"kind": "correlated", "sigma": 4})


@pytest.mark.parametrize("model", ["small-cnn", "small-transformer"])
def test_recorded_steps_are_predicted_from_a_profile_of_their_node(model):
    folder = ROOT / "validate" / "recorded" / "amd-epyc-4-cores" / model
    errors = []
    for file in sorted(folder.glob("run-1-*.json")):
        case = json.loads(file.read_text())["runs"][0]["case"]
        scenario = load_scenario(folder / case["scenario"], tuple(case["set"]))
        measured = case["measured"]["step_time_s"]["mean"]
        errors.append(simulate(scenario).step_time_s["mean"] / measured - 1)
    assert len(errors) == 4
    assert np.abs(errors).mean() < 0.15


def test_layers_are_those_of_the_scenarios_software():
    runs = [
        layers(seconds, spread(seconds, 0.0), execution=execution)
        for seconds, execution in ((0.01, "eager"), (0.004, "compile"))
    ]
    found = profile_of(runs, scenario_here(CPU, 4), "n", {})
    for execution, seconds in (("eager", 0.01), ("compile", 0.004), ("graph", None)):
        taken = found.layer_times(["a"], "fp32", software={"execution": execution})
        if seconds is None:
            assert taken is None
        else:
            assert sum(taken.forward_s[0] + taken.backward_s[0]) == pytest.approx(2 * seconds)
    # Who updates by other kernels computes as before.
    assert found.layer_times(["a"], "fp32", software={"optimizer_kernels": "fused"}) is not None


def carried(item, rows):
    """The item as it was measured, with a world of two ranks."""
    world = {"backend": "gloo", "ranks": [{"rank": rank, **PLACE} for rank in range(item.ranks)]}
    return item, Attempt(item.name, {}, world, rows, ended="done")


def wrapped(steps):
    # In its second turn other work holds all of it up, in its last DDP.
    rows = [
        {"variant": name, "turn": turn, "alone_s": [seconds * slower] * 3}
        for turn in range(3)
        for name, seconds in steps.items()
        for slower in [1 + (turn == 1) + (turn == 2 and name == "ddp")]
    ]
    return carried(wrapped_item(CPU, 4, "gloo", "m", "fp32", 16, 1.0), rows)


def test_what_torchs_wrappers_add_is_in_the_steps_of_those_who_use_them(monkeypatch):
    monkeypatch.setitem(BUILT_IN, "m", BUILT_IN["small-cnn"])
    steps = {"plain": 0.160, "ddp": 0.161, "fsdp2": 0.170}
    runs = [layers(0.01, spread(0.01, 0.0))]
    found = profile_of(runs, scenario_here(CPU, 4), "n", {}, [wrapped(steps)])
    (model,) = found.compute
    assert {name: one.value for name, one in model.wrapped.items()} == pytest.approx(
        {"ddp": 0.001, "fsdp2": 0.010}
    )


WRAPPERS = [
    ("strategy.overlap={kind: buckets}", "ddp"),
    ("strategy.overlap.kind=sequential", None),
    ("strategy.aggregation={kind: sharded, stage: 1}", "ddp"),
    ("strategy.aggregation={kind: sharded}", "fsdp2"),
    ("strategy.aggregation={kind: parameter-server}", None),
]


@pytest.mark.parametrize(("strategy", "wrapper"), WRAPPERS)
def test_who_uses_which_wrapper(strategy, wrapper):
    assert load_scenario(HERE / "small.yaml", (strategy,)).strategy.wrapper == wrapper


def with_profile(tmp_path, profile, *sets):
    file = tmp_path / "own.json"
    file.write_text(profile.to_json())
    cluster = f"cluster={json.dumps(cluster_here(CPU, 2))}"
    return load_scenario(HERE / "small.yaml", (f"calibration={file}", cluster, *sets))


def test_a_collective_takes_its_mean_without_the_slowest_tenth():
    # Two usual times of 1 and 4 ms, and one disturbance of a second.
    assert usual_s([0.001] * 6 + [1.0] + [0.004] * 3) == pytest.approx(0.002)


def test_pushes_and_pulls_take_what_was_measured(tmp_path):
    rows = [
        {"rank": rank, "variant": name, "parts_s": {"communication": [9.0] * 3 + [seconds] * 17}}
        for rank in range(3)
        for name, seconds in {"kib64": 0.002, "kib256": 0.004, "mib1": 0.01, "mib4": 0.034}.items()
    ]
    served = carried(served_item(CPU, 2, "gloo", 1.0), rows)
    found = profile_of([collectives(2, 3.0)], scenario_here(CPU, 2), "n", {}, [served])
    tables = [table for table in found.network if table.servers]
    assert [(table.operation, table.ranks, table.servers) for table in tables] == [
        ("push", 2, 1),
        ("pull", 2, 1),
    ]
    assert tables[0].times_s == pytest.approx((0.001, 0.002, 0.005, 0.017))
    servers = "strategy.aggregation={kind: parameter-server, servers: 1, colocated: false}"
    scenario = with_profile(tmp_path, found, servers, "strategy.overlap.kind=sequential")
    # 1.2 MB, in between: 2 ms and 8 ms a MiB.
    nbytes = simulate(scenario).job.model.parameters * 4
    taken = 0.00147 + nbytes / 2**20 * 0.0081
    assert simulate(scenario).parts_s["exposed_comm"] == pytest.approx(taken, rel=0.1)


def test_computing_loses_what_is_sent_beside_it_and_that_is_measured_as_communication(tmp_path):
    row = {"bytes": 4_000_000, "alone_s": 0.03, "sent_s": 0.002, "lost_s": 0.004}
    slow = {"bytes": 8_000_000, "alone_s": 0.03, "sent_s": 0.04, "lost_s": 0.03}
    beside = run_of("beside", [row, slow], 2)
    here = scenario_here(CPU, 2)
    found = profile_of([collectives(2, 3.0), beside], here, "n", {})
    nothing = found.beside.model_copy(update={"value": 0.0})
    without = found.model_copy(update={"beside": nothing})
    # The larger one takes longer than the step that should hide it.
    assert found.beside.value == pytest.approx(0.5e-9)
    plain, lost = (simulate(with_profile(tmp_path, each)) for each in (without, found))
    hidden = sum(each.stages[0][1] for each in lost.job.calls(0) if each.needed != each.ready)
    assert hidden > 0.5e6
    more = lost.parts_s["compute"] - plain.parts_s["compute"]
    assert more == pytest.approx(2 * hidden * 0.5e-9, rel=1e-6)
    divided = divide_as_measured(lost)
    assert divided.parts_s["compute"] == pytest.approx(plain.parts_s["compute"])
    assert divided.parts_s["exposed_comm"] == pytest.approx(lost.parts_s["exposed_comm"] + more)
    assert divided.step_time_s == lost.step_time_s


def test_recorded_strategies_are_predicted_from_a_profile_of_their_node():
    folder = ROOT / "validate" / "recorded" / "two-cores"
    records = records_of([folder])
    assert len(records) == 10
    totals, computing = [], []
    for record in records:
        case = record.case
        scenario = load_scenario(case["scenario"], tuple(case["set"]))
        predicted, measured = divide_as_measured(simulate(scenario)), case["measured"]
        totals.append(predicted.step_time_s["median"] / measured["step_time_s"]["median"] - 1)
        computing.append(predicted.parts_s["compute"] / measured["parts_s"]["compute"] - 1)
    # Steps are short by what communication takes longer beside other programs.
    assert np.abs(totals).mean() < 0.15
    assert np.abs(totals).max() < 0.25
    assert np.abs(computing).max() < 0.15


def test_a_measured_update_is_that_of_the_kernels_that_were_measured():
    file = ROOT / "validate" / "recorded" / "two-cores" / "scenario.yaml"
    by_default, foreach, fused = (
        prepare(load_scenario(file, sets)).times[0].optimizer
        for sets in (
            (),
            ("workload.optimizer_kernels=foreach",),
            ("workload.optimizer_kernels=fused",),
        )
    )
    assert by_default == foreach != fused
