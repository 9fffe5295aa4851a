"""Constants of collectives and of computing, refitted on what a node's profile has measured."""

import math

import numpy as np
import pytest

from dpsim import load_scenario, simulate
from dpsim.base.errors import DpsimError
from dpsim.collectives import algorithm
from dpsim.engine import Constants, calibrated, constants_of, prepare, resized
from dpsim.engine.refit import RefittedModel
from dpsim.hardware import CalibrationProfile, Measured
from dpsim.network import CollectiveModel, RoundsModel

TEXT = """
name: on a node
cluster: {nodes: 2, node: dgx1-v100, network: {fabric: single-switch, nic: 25GbE}}
workload: {model: resnet50, batch_per_gpu: 16}
strategy:
  aggregation: {kind: allreduce, library: nccl}
  overlap: {kind: sequential}
run: {steps: 3, warmup: 1}
"""
SIZES = tuple(4096 * 4**power for power in range(8))
NO_ERRORS = {
    "counted_on": "held-out rows",
    "n": 1,
    **dict.fromkeys(("median_ape", "mean_ape", "p95_ape", "worst_ape", "worst_bytes"), 0),
}


@pytest.fixture
def scenario(tmp_path):
    """Loads the scenario, with a profile beside it where one is given."""

    def load(profile=None, *sets):
        (tmp_path / "own.yaml").write_text(TEXT)
        if profile is None:
            return load_scenario(tmp_path / "own.yaml", sets)
        content = {"name": "own", "kind": "node", "residuals": NO_ERRORS, **profile}
        written = CalibrationProfile.model_validate(content).to_json()
        (tmp_path / "profile.json").write_text(written)
        return load_scenario(tmp_path / "own.yaml", ("calibration=profile.json", *sets))

    return load


def base(scenario, operation="all-reduce"):
    return calibrated(scenario).collectives[operation][0]


def seconds(model, nbytes):
    return float(model.finish(np.zeros(model.network.ranks), nbytes).finishes.max())


def table(scenario, ranks, hosts, entry, latency, per_byte, operation="all-reduce"):
    """What the model takes on so many ranks, with these constants."""
    model = base(resized(scenario, ranks, hosts), operation)
    nothing = seconds(model, 4)
    times = [
        entry + latency * nothing + per_byte * (seconds(model, size) - nothing) for size in SIZES
    ]
    return Measured(
        operation=operation,
        ranks=ranks,
        hosts=hosts,
        devices=("Tesla V100-SXM2-16GB",),
        sizes_bytes=SIZES,
        times_s=tuple(times),
    )


def test_constants_are_found_again(scenario):
    plain = scenario()
    # On one number of ranks, entry and latency could not be separated.
    places = [(4, 1), (8, 1), (16, 2)]
    measured = [table(plain, *place, 20e-6, 3.0, 1.5) for place in places]
    found = constants_of([base(resized(plain, *place)) for place in places], measured)
    assert found.entry + 0 == pytest.approx(20e-6, rel=1e-6)
    assert (found.latency, found.bytes) == (pytest.approx(3.0), pytest.approx(1.5))


def test_a_table_of_one_node_tells_of_two(scenario):
    """Twice the model's times on one node are twice its times on two: the form is the model's."""
    plain = scenario()
    twice = scenario({"network": [table(plain, 8, 1, 0.0, 2.0, 2.0).model_dump()]})
    for size in SIZES:
        ratio = seconds(base(twice), size) / seconds(base(plain), size)
        assert ratio == pytest.approx(2, rel=1e-6)
    before, after = (simulate(each).parts_s["exposed_comm"] for each in (plain, twice))
    assert after == pytest.approx(2 * before, rel=1e-3)


def test_what_was_measured_is_predicted_as_measured(scenario):
    """A tenth of the model's rate for large messages, and its latency: no three constants say so."""
    measured = table(scenario(), 16, 2, 0.0, 1.0, 1.0)
    times = tuple(30e-6 + size / 1e8 for size in SIZES)
    slow = measured.model_copy(update={"times_s": times}).model_dump()
    refitted = base(scenario({"kind": "nccl-tests", "parameters": {}, "measured": slow}))
    assert [seconds(refitted, size) for size in SIZES] == pytest.approx(times, rel=1e-6)
    between = math.sqrt(SIZES[-2] * SIZES[-1])
    assert times[-2] < seconds(refitted, round(between)) < times[-1]
    assert seconds(refitted, 4 * SIZES[-1]) > 3.5 * times[-1]


GROUPS = "strategy.aggregation={kind: sharded, shard_group: 8, library: nccl}"


def test_groups_of_ranks_are_refitted_each(scenario):
    """A table that says what the model says changes no group's times, one of ten times does."""
    sets = GROUPS, "workload.model=alexnet", "run.steps=1", "run.warmup=0"
    plain = scenario(None, *sets)

    def waited(factor):
        tables = [table(plain, 8, 1, 0.0, factor, factor, "all-gather").model_dump()]
        return simulate(scenario({"network": tables}, *sets)).parts_s["exposed_comm"]

    expected = simulate(plain).parts_s["exposed_comm"]
    assert waited(1.0) == pytest.approx(expected, rel=1e-6)
    assert waited(10.0) > 2 * expected


# Answered by its own times, or by none: of single messages the constants know nothing.
OF_ITS_OWN = {
    "finish",
    "finish_after",
    "seconds_from_common_start",
    "of_size",
    "has_messages",
    "run_by_messages",
    "compared",
    "end_from_common_start",
}


@pytest.mark.parametrize(
    ("strategy", "operation"),
    [
        ("{aggregation: {kind: parameter-server}}", "push"),
        ("{aggregation: {kind: allreduce, algorithm: ring, library: ideal}}", "all-reduce"),
    ],
)
def test_early_ranks_send_at_the_refitted_rate_too(tmp_path, strategy, operation):
    """A model whose bytes take four times as long is that of links with a fourth of the rate."""
    models = []
    for rate in (2, 0.5):
        (tmp_path / "own.yaml").write_text(
            "name: own\n"
            "cluster: {nodes: 4, node: dgx1-v100, gpus_per_node: 2, network: {fabric:"
            f" single-switch, nic: {{name: own, rate: {rate} Gbit/s, latency: 0 s}}}}}}\n"
            "workload: {model: resnet50, batch_per_gpu: 16}\n"
            f"strategy: {strategy}\n"
        )
        models.append(prepare(load_scenario(tmp_path / "own.yaml")).collectives[operation][0])
    fast, slow = models
    starts = np.array([0.2, 0, 0, 0, 0, 0, 0, 0])
    found = RefittedModel(fast, Constants(0.0, 1.0, 4.0)).finish(starts, 10**8).finishes
    assert found == pytest.approx(slow.finish(starts, 10**8).finishes, rel=0.03)


def test_beside_its_times_a_refitted_model_is_its_base(scenario):
    """Each question to a model of a collective goes on to the base, and is answered alike."""
    model = base(scenario(None, GROUPS), "all-gather")
    same = RefittedModel(model, Constants(0.0, 1.0, 1.0))
    requested = {name for name in dir(CollectiveModel) if not name.startswith("_")} - OF_ITS_OWN
    assert requested - set(vars(RefittedModel)) - set(vars(same)) == set()
    starts = np.linspace(0, 1e-3, 16)
    np.testing.assert_allclose(
        same.finish(starts, 10**6).finishes, model.finish(starts, 10**6).finishes, rtol=1e-12
    )
    assert len(list(same.crossings())) == len(list(model.crossings())) > 0
    group = model.members[1]
    assert seconds(same.of_group(group), 10**6) == seconds(model.of_group(group), 10**6)
    broadcast = RoundsModel(algorithm("tree", "broadcast").schedule(16), model.network)
    assert not RefittedModel(broadcast, Constants(0.0, 1.0, 1.0)).joins_all


def test_an_imported_log_of_nccl_tests_is_such_a_profile(scenario):
    measured = table(scenario(), 8, 1, 0.0, 1.0, 3.0).model_dump()
    own = scenario({"kind": "nccl-tests", "parameters": {}, "measured": measured})
    assert (
        simulate(own).parts_s["exposed_comm"] > 1.5 * simulate(scenario()).parts_s["exposed_comm"]
    )


def test_other_hardware_and_another_library_are_warnings(scenario):
    measured = [table(scenario(), 8, 1, 0.0, 2.0, 2.0).model_dump()]
    profile = {"network": measured, "gpu": "a100-sxm-40gb"}
    first, *_ = simulate(scenario(profile)).warnings
    assert (
        first == "calibration 'own' was measured on a100-sxm-40gb, and is used for v100-sxm2-16gb"
    )
    by_gloo = [{**each, "backend": "gloo"} for each in measured]
    found = simulate(scenario({"network": by_gloo, "gpu": "v100-sxm2-16gb"})).warnings
    assert "collectives by gloo, and none by nccl" in found[0]
    assert not simulate(scenario({"network": measured, "gpu": "v100-sxm2-16gb"})).warnings


def test_ranks_that_the_scenarios_nodes_do_not_have_are_an_error(scenario):
    measured = table(scenario(), 8, 1, 0.0, 2.0, 2.0).model_dump()
    with pytest.raises(DpsimError, match="measured by 24 ranks on 1 hosts"):
        calibrated(scenario({"network": [{**measured, "ranks": 24}]}))


def test_two_sizes_are_too_few(scenario):
    measured = table(scenario(), 8, 1, 0.0, 2.0, 2.0)
    few = measured.model_copy(update={"sizes_bytes": SIZES[:2], "times_s": measured.times_s[:2]})
    with pytest.raises(
        DpsimError, match="must have been measured at 3 or more sizes, but was at 2"
    ):
        calibrated(scenario({"network": [few.model_dump()]}))


def test_what_products_and_memory_reach_is_taken_for_any_model(scenario):
    def computing(fraction):
        names = ("conv_fp32", "product_fp32", "memory")
        constants = {name: {"value": fraction, "unit": "1"} for name in names}
        launch = {"launch": {"value": 1e-9, "unit": "s"}}
        own = scenario({"constants": constants | launch}, "workload.batch_per_gpu=64")
        return simulate(own).parts_s["compute"]

    assert computing(0.25) == pytest.approx(2 * computing(0.5), rel=0.02)


def test_layers_count_in_the_precision_that_they_were_measured_in(scenario):
    plain = scenario()
    layers = [layer.name for layer in plain.build_model().layers]
    row = [[1e-3] * len(layers)]
    names = [
        f"{way}_{what}" for way in ("forward", "backward") for what in ("s", "low_s", "high_s")
    ]
    model = {"model": "resnet50", "device": "a", "layers": layers, "batch_sizes": [16]}
    model |= dict.fromkeys(names, row)
    measured = scenario({"compute": [{**model, "precision": "fp32"}]})
    assert simulate(measured).parts_s["compute"] > 2e-3 * len(layers)
    other = scenario({"compute": [{**model, "precision": "fp16"}]})
    assert simulate(other).parts_s["compute"] == simulate(plain).parts_s["compute"]
