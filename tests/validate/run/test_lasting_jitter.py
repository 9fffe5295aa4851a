"""Jitter that lasts, delays, stalls and a slow host on real ranks: a small form of the recording."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from again import measured_again

MISSING = find_spec("torch") is None and os.environ.get("CI") != "true"
pytestmark = [
    pytest.mark.torch,
    pytest.mark.testbed,
    pytest.mark.skipif(MISSING, reason="torch is not installed: pip install -e '.[validate]'"),
]

SCENARIO = Path(__file__).parents[3] / "scenarios" / "testbed" / "lasting-jitter.yaml"
WAYS = [
    pytest.param((), id="bsp", marks=pytest.mark.wide),
    pytest.param(
        ("strategy.aggregation.kind=gossip", "strategy.sync.kind=asp"),
        id="ad-psgd",
    ),
]


@pytest.mark.parametrize("way", WAYS)
def test_steps_take_about_as_long_as_predicted(way, brisk):
    """A test's machine may be busy: bounds that only a wrong model passes over."""
    from validate.emulate import Case
    from validate.run import on_testbed

    # Enough steps for workers to have drifted apart as far as they will, which predictions assume.
    short = (brisk, "testbed.rate=300 Mbit/s", "run.warmup=4", "run.steps=12")
    case = Case(str(SCENARIO), (*way, *short))

    def measure():
        (run,) = on_testbed([case])
        return run

    def check(run):
        assert run.error["step_time"] == pytest.approx(0, abs=0.2)
        assert run.measured.steps.compute.std() > 0.007  # of 51 ms

    measured_again(check, measure)
