"""Jitter that lasts, delays, stalls and a slow host on real ranks: a small form of the recording."""

from pathlib import Path

import numpy as np
import pytest
from again import measured_again

pytestmark = [
    pytest.mark.torch,
    pytest.mark.testbed,
]

SCENARIO = Path(__file__).parents[3] / "scenarios" / "testbed" / "lasting-jitter.yaml"
# At these rates a step waits for the network for about half of its time.
WAYS = [
    pytest.param(("testbed.rate=150 Mbit/s",), id="bsp", marks=pytest.mark.wide),
    pytest.param(
        (
            "testbed.rate=200 Mbit/s",
            "strategy.aggregation.kind=gossip",
            "strategy.sync.kind=asp",
        ),
        id="ad-psgd",
    ),
]


@pytest.mark.parametrize("way", WAYS)
def test_steps_take_about_as_long_as_predicted(way, brisk):
    """A test's machine may be busy, which holds up messages most: in three of four steps, if need
    be. No step takes less than its time for that.
    """
    from validate.emulate import Case
    from validate.run import on_testbed

    # Enough steps for workers to have drifted apart as far as they will, which predictions assume.
    case = Case(str(SCENARIO), (*way, brisk, "run.warmup=4", "run.steps=12"))

    def measure():
        (run,) = on_testbed([case])
        return run.predicted.steps, run.measured.steps

    def check(run):
        predicted, measured = run
        # Passes are timed waits, which hardly anything moves: each worker's are as long as planned.
        off = np.median(np.abs(measured.compute / predicted.compute - 1), axis=0)
        assert off.mean() < 0.03
        quick = [np.quantile(steps.step, 0.25) for steps in run]
        assert quick[0] == pytest.approx(quick[1], rel=0.2)
        assert predicted.step.mean() < 1.2 * measured.step.mean()

    measured_again(check, measure)
