"""A calibration profile at its extremes: a prediction of finite numbers, or one line that says where."""

import json
from pathlib import Path

import pytest

RECORDED = Path(__file__).parents[2] / "validate" / "recorded" / "plan-on-a-processor"


@pytest.fixture
def run_with(dpsim, tmp_path):
    """Runs the recorded scenario with its profile after ``change``; code, stdout and stderr."""

    def run(change):
        profile = json.loads((RECORDED / "profile.json").read_text())
        change(profile)
        path = tmp_path / "profile.json"
        path.write_text(json.dumps(profile))
        scenario = RECORDED / "scenario.yaml"
        return dpsim("run", scenario, "--set", f"calibration={path}", "--json")

    return run


def constant(name, value):
    return lambda profile: profile["constants"][name].update(value=value)


def update(value):
    return lambda profile: [
        model["optimizers"]["momentum"].update(value=value) for model in profile["compute"]
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (constant("memory", 0), "constants.memory: value must be at least 1e-09, but got 0"),
        (constant("product_fp32", 1e-320), "constants.product: value must be at least 1e-09"),
        (update(-1e308), "optimizers.momentum: value must be from 0 to 1e+06"),
        (update(1e30), "optimizers.momentum: value must be from 0 to 1e+06"),
    ],
)
def test_what_cannot_be_is_one_line(run_with, change, message):
    code, out, err = run_with(change)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_layers_that_take_no_time_have_a_step(run_with):
    def no_time(profile):
        for model in profile["compute"]:
            for name in ("forward", "backward"):
                for field in (f"{name}_s", f"{name}_low_s", f"{name}_high_s"):
                    model[field] = [[0.0] * len(row) for row in model[field]]

    code, out, _ = run_with(no_time)
    assert code == 0
    json.loads(out, parse_constant=pytest.fail)
