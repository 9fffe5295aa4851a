"""Scenarios with a testbed instead of a cluster, and with a profile of the transport."""

from pathlib import Path

import pytest

import validate
from dpsim.base.errors import ScenarioError
from dpsim.engine import simulate
from dpsim.hardware.calibration import CalibrationProfile, load_profile
from dpsim.scenario import Scenario, load_scenario

TEXT = "name: real ranks\ntestbed: {hosts: 4, rate: 100 Mbit/s}\nworkload: {model: resnet18, batch_per_gpu: 1}\n"
PARAMETERS = {"latency": 150e-6, "efficiency": 0.5, "entry": 1e-4, "cores": 2.0}


@pytest.fixture
def scenario(tmp_path, monkeypatch):
    """Loads a scenario in an empty folder with what is added to it and overridden in it; a profile
    lies beside it.
    """
    monkeypatch.chdir(tmp_path)
    residuals = {
        "counted_on": "held-out rows",
        "n": 3,
        "median_ape": 0.01,
        "mean_ape": 0.02,
        "p95_ape": 0.03,
        "worst_ape": 0.04,
    }
    content = {"name": "ours", "kind": "transport", "residuals": {**residuals, "worst_bytes": 4}}

    def write(name, **changes):
        parameters = {
            key: {"value": value, "unit": "1"}
            for key, value in changes.pop("parameters", PARAMETERS).items()
        }
        Path(name).write_text(
            CalibrationProfile.model_validate(
                {**content, "parameters": parameters, **changes}
            ).to_json()
        )

    write("profile.json")
    write("other.json", kind="other")
    write("odd.json", parameters={"latency": 1e-4, "speed": 3.0})
    write("endless.json", parameters={"latency": 1e300})

    def load(added="", *overrides):
        Path("scenario.yaml").write_text(TEXT + added)
        return load_scenario("scenario.yaml", overrides)

    return load


def test_its_cluster_is_the_testbeds(scenario):
    loaded = scenario()
    assert loaded.cluster == loaded.testbed.cluster()
    assert loaded.cluster.ranks == 4
    assert scenario("", "testbed.hosts=8").cluster.ranks == 8


@pytest.mark.parametrize(
    "overrides", [(), ("calibration=profile.json", "testbed.racks={uplink: 50 Mbit/s}")]
)
def test_what_was_loaded_reads_back(scenario, overrides):
    loaded = scenario("", *overrides)
    assert Scenario.model_validate(loaded.model_dump(mode="json")) == loaded


BAD = {
    "cluster: {nodes: 4, node: single-gpu}": "testbed: testbed must not be given with cluster, which follows from it, but got another",
    "calibration: other.json": "must be a profile of kind transport (dpsim validate calibrate), node (dpsim validate node) or nccl-tests, but 'ours' is of kind other",
    "calibration: odd.json": "parameters of a transport must be among latency, overhead",
    "calibration: endless.json": "latency of 'ours': must be at most 1000000000000.0, but got 1e+300",
    "calibration: none.json": "none.json: cannot be read: No such file or directory",
    "calibration: fast": "profile.json, or a profile's name (known: catalogue, testbed), but got 'fast'",
    "calibration: tesbed": "profile.json, or a profile's name (did you mean 'testbed'?), but got 'tesbed'",
}


@pytest.mark.parametrize("added", BAD)
def test_incompatible_values_are_reported(scenario, added):
    with pytest.raises(ScenarioError) as caught:
        scenario(added)
    assert BAD[added] in str(caught.value)
    assert str(caught.value).count("\n") == 0


def test_a_wrong_testbed_is_the_only_problem(scenario):
    with pytest.raises(ScenarioError) as caught:
        scenario("", "testbed.hosts=0")
    assert (
        str(caught.value) == "--set testbed.hosts=0: testbed.hosts: must be at least 1, but got 0"
    )


def test_one_of_the_two_must_be_there():
    with pytest.raises(ValueError, match=r"cluster\n  Field required"):
        Scenario.model_validate({"name": "neither", "workload": {"model": "resnet18"}})


def test_a_profile_that_comes_with_the_program_has_a_name(scenario):
    loaded = scenario("calibration: testbed")
    assert loaded.calibration == load_profile(
        Path(validate.__file__).parent / "profiles" / "testbed.json"
    )
    Path("testbed.json").write_text("a file beside the scenario does not stand for it")
    assert scenario("calibration: testbed") == loaded


def test_a_profile_is_used_and_named(scenario):
    plain, calibrated = (
        simulate(scenario("run: {steps: 2, warmup: 0}", *more))
        for more in ((), ("calibration=profile.json",))
    )
    assert calibrated.parts_s["exposed_comm"] == pytest.approx(
        2 * plain.parts_s["exposed_comm"], rel=0.1
    ), "half the rate"
    output = calibrated.to_json()["calibration"]
    assert output["name"] == "ours"
    assert output["residuals"]["mean_ape"] == 0.02
    assert output["compute"] == "catalogue"
