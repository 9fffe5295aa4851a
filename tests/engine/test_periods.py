"""An averaging is paid over its period, also where the requested run is shorter."""

import numpy as np
import pytest

from dpsim import simulate
from dpsim.base.errors import DpsimError

EVERY_100 = {"kind": "local-sgd", "every": 100}


def test_a_period_longer_than_the_run_is_simulated_whole(tiny):
    """A step of 10.5 s, and once in a hundred an all-reduce of 2 MB at 1 MB/s: 2 s."""
    result = simulate(tiny(2, sync=EVERY_100, run={"steps": 50}))
    np.testing.assert_allclose(result.steps.step.mean(), 10.5 + 2 / 100, rtol=1e-6)
    assert len(result.steps.step) == 100
    assert result.traffic.sent_in_total == round(2 * 2e6 / 100)
    assert result.scaling_efficiency == pytest.approx(10.5 / 10.52, rel=1e-6)


@pytest.mark.parametrize("every", [3, 7, 28, 49])
def test_a_part_of_a_period_counts_neither_too_many_averagings_nor_too_few(tiny, every):
    """Fifty steps hold one averaging each 28, where they are due 1.8."""
    result = simulate(tiny(2, sync={"kind": "local-sgd", "every": every}, run={"steps": 50}))
    np.testing.assert_allclose(result.steps.step.mean(), 10.5 + 2 / every, rtol=1e-6)
    assert result.traffic.sent_in_total == round(2 * 2e6 / every)


def test_epochs_are_periods_too(tiny):
    """160 samples over 2 workers of 8 are 10 steps an epoch."""
    sync = {"kind": "local-sgd", "every": 2, "unit": "epochs"}
    result = simulate(tiny(2, sync=sync, workload={"dataset": {"samples": 160}}, run={"steps": 5}))
    assert len(result.steps.step) == 20
    np.testing.assert_allclose(result.steps.step.mean(), 10.5 + 2 / 20, rtol=1e-6)


def test_stragglers_are_waited_for_once_a_period(tiny):
    """Worker 1 takes twice as long; its clock runs away until the averaging."""
    slow = {"slow": [{"workers": [1], "factor": 2}]}
    result = simulate(tiny(2, sync=EVERY_100, disturbance=slow, run={"steps": 10}))
    waits = result.steps.straggler_wait
    # 10 s of each pass are doubled, and 0.5 s of each update.
    np.testing.assert_allclose(waits.sum(axis=0), [100 * 10.5, 0], atol=1e-6)
    assert (waits[:-1] == 0).all()


def test_a_switch_after_the_run_leaves_it_as_it_is(tiny):
    sync = {**EVERY_100, "switch_after": 1000}
    assert len(simulate(tiny(2, sync=sync, run={"steps": 5})).steps.step) == 5


def test_a_period_that_is_too_long_to_simulate_says_so(tiny):
    sync = {"kind": "local-sgd", "every": 20_000_000}
    with pytest.raises(DpsimError, match="a whole period of averaging is simulated"):
        simulate(tiny(2, sync=sync))
