"""Layer times and host-device copies in a calibration profile, and what scenarios make of them."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from dpsim import load_scenario, simulate
from dpsim.base.errors import DpsimError, ScenarioError
from dpsim.hardware import nodes
from dpsim.hardware.calibration import CalibrationProfile, Residuals, Transport, load_profile
from dpsim.topology import ClusterConfig, build_cluster, cluster_over_transport
from validate.calibrate.compute import measured_model, step_errors

pytestmark = pytest.mark.torch

if find_spec("torch"):
    from validate.microbench.run_file import RankPlace, RunFile
    from validate.microbench.settings import Settings
    from validate.node.profile import Copies, fit_copies

ROOT = Path(__file__).parents[3]
LAYERS = ["layer0", "layer1"]


def run_file(what, rows, ranks=1):
    """A run of microbenchmarks with these rows."""
    places = tuple(
        RankPlace(rank=rank, host="h", pid=1, device="cpu", device_name="a processor")
        for rank in range(ranks)
    )
    reported = tuple({"what": what, **row} for row in rows)
    return RunFile(
        what=(what,),
        settings=Settings(what=(what,)),
        backend="gloo",
        ranks=places,
        machine={},
        rows=reported,
    )


def layers(batch, forward, backward, update=(0.01, 0.01, 0.01), **changes):
    """A row: the first layer takes a quarter of a forward pass and half of a backward pass."""
    return {
        "model": "two",
        "device": "a processor",
        "layers": LAYERS,
        "batch_size": batch,
        "forward_shares": [[0.25, 0.75]] * 3,
        "backward_shares": [[0.5, 0.5]] * 3,
        "forward_pass_times_s": forward,
        "backward_pass_times_s": backward,
        "optimizer": "momentum",
        "optimizer_times_s": list(update),
        **changes,
    }


def alike(batch, seconds):
    return layers(batch, [seconds] * 3, [2 * seconds] * 3)


def profile_of(run):
    """A profile of only layers."""
    model = measured_model(run)
    return CalibrationProfile(
        name="ours",
        kind="compute",
        compute=(model,),
        residuals=Residuals.of(step_errors(model) or [0.0], "held-out rows"),
    )


class TestLayers:
    def test_a_layer_has_its_share_of_the_median_pass(self):
        found = measured_model(run_file("layers", [layers(4, [0.3, 0.4, 9.0], [1.0, 1.0, 1.0])]))
        assert found.forward_s == (pytest.approx((0.1, 0.3)),)
        assert found.backward_s == ((0.5, 0.5),)
        assert found.backward_low_s == found.backward_high_s == found.backward_s, (
            "repetitions were alike"
        )
        assert found.forward_low_s[0][1] == pytest.approx(0.225)
        assert found.forward_high_s[0][1] > 1, "a third of the repetitions took 9 s"

    def test_what_lies_between_batch_sizes_is_judged_without_itself(self):
        straight = run_file("layers", [alike(size, 0.1 + 0.02 * size) for size in (1, 2, 4, 8)])
        bent = run_file(
            "layers", [alike(size, seconds) for size, seconds in ((1, 0.1), (2, 0.4), (3, 0.3))]
        )
        assert step_errors(measured_model(straight)) == pytest.approx([0, 0], abs=1e-12)
        assert step_errors(measured_model(bent)) == pytest.approx([-0.5])

    def test_the_update_is_the_median_of_all_batch_sizes(self):
        rows = [layers(4, [1.0], [1.0], (0.01, 0.02)), layers(8, [1.0], [1.0], (0.03,))]
        found = measured_model(run_file("layers", rows))
        assert found.batch_sizes == (4, 8)
        assert {name: one.value for name, one in found.optimizers.items()} == {"momentum": 0.02}


@pytest.fixture
def two(tmp_path):
    """A scenario of two layers on two hosts that has no measured times of its own; its profile
    holds 0.4 s of 8 samples.
    """
    traced = [
        {"name": name, "kind": "linear", "parameters": [1000], "forward_flop": 2000}
        for name in LAYERS
    ]
    (tmp_path / "model.json").write_text(json.dumps({"name": "any", "layers": traced}))
    (tmp_path / "profile.json").write_text(
        profile_of(run_file("layers", [alike(4, 0.2), alike(8, 0.4)])).to_json()
    )
    (tmp_path / "two.yaml").write_text(
        "name: two\ntestbed: {hosts: 2}\nworkload: {model: {profile: model.json}, batch_per_gpu: "
        "8}\nrun: {steps: 2, warmup: 0}\n"
    )
    return tmp_path


class TestScenarios:
    def test_use_the_layer_times_of_a_profile(self, two):
        plain, reported = (
            simulate(load_scenario(two / "two.yaml", sets))
            for sets in ([], ["calibration=profile.json"])
        )
        assert plain.parts_s["compute"] < 0.1
        assert reported.parts_s["compute"] == pytest.approx(0.4 + 0.8 + 0.01)
        assert reported.parts_s["exposed_comm"] == pytest.approx(
            plain.parts_s["exposed_comm"], rel=0.05
        ), "links stay as they were"
        assert reported.to_json()["calibration"]["compute"] == "profile"

    def test_of_an_optimiser_that_was_not_measured_the_update_is_computed(self, two):
        reported = simulate(
            load_scenario(two / "two.yaml", ["calibration=profile.json", "workload.optimizer=adam"])
        )
        assert reported.parts_s["compute"] == pytest.approx(1.2, rel=0.005)
        assert reported.parts_s["compute"] < 1.209

    def test_of_another_model_use_the_catalogue(self, two):
        scenario = load_scenario(
            two / "two.yaml", ["calibration=profile.json", "workload.model=resnet50"]
        )
        assert simulate(scenario).to_json()["calibration"]["compute"] == "catalogue"

    def test_use_layers_and_transport_of_one_file(self, two):
        profile = load_profile(two / "profile.json")
        half = {"value": 0.5, "unit": "1"}
        both = CalibrationProfile.model_validate(
            {**profile.model_dump(), "kind": "transport", "parameters": {"efficiency": half}}
        )
        (two / "both.json").write_text(both.to_json())
        plain, reported = (
            simulate(load_scenario(two / "two.yaml", [f"calibration={name}"]))
            for name in ("profile.json", "both.json")
        )
        assert reported.parts_s["compute"] == plain.parts_s["compute"]
        assert reported.parts_s["exposed_comm"] > 1.5 * plain.parts_s["exposed_comm"]

    def test_a_profile_without_anything_is_refused(self, two):
        empty = json.loads((two / "profile.json").read_text()) | {"compute": []}
        (two / "empty.json").write_text(json.dumps(empty))
        with pytest.raises(
            (ScenarioError, DpsimError),
            match="parameters must have at least 1 entry where compute has none",
        ):
            load_scenario(two / "two.yaml", ["calibration=empty.json"])


class TestCopies:
    def test_latency_and_rate_are_found_again(self):
        noise = np.random.default_rng(0)
        rows = [
            Copies(size, tuple((1e-5 + size / 2e10) * noise.uniform(0.99, 1.01, 9)))
            for size in (4096, 2**20, 2**24, 2**27)
        ]
        found = fit_copies(rows)
        assert found["copy_latency"].value == pytest.approx(1e-5, rel=0.05)
        assert found["copy_rate"].value == pytest.approx(2e10, rel=0.02)
        assert found["copy_rate"].low < 2e10 < found["copy_rate"].high
        with pytest.raises(DpsimError, match="copies of at least 3 sizes, but have 2"):
            fit_copies(rows[:2])

    def test_a_gpus_link_to_its_host_takes_what_a_copy_took(self):
        config = ClusterConfig(nodes=1, node=nodes()["dgx1-v100"])
        found = cluster_over_transport(config, Transport(copy_rate=5e9, copy_latency=2e-6))
        before, after = (build_cluster(each).graph().edges for each in (config, found))
        changed = {(a, b) for a, b in before if before[a, b]["capacity"] != after[a, b]["capacity"]}
        assert len(changed) == 2 * 8, "each GPU's own link, both ways"
        assert {(after[hop]["capacity"], after[hop]["latency"]) for hop in changed} == {(5e9, 2e-6)}
        assert not any("gpu" in a and "gpu" in b for a, b in changed), "links between GPUs stay"
        assert (
            cluster_over_transport(config, Transport(latency=1e-5)).node.edges == config.node.edges
        )
