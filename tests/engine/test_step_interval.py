"""The interval of the mean step: the middle 95 % of the means of steps drawn with replacement."""

from dataclasses import replace

import numpy as np
import pytest

from dpsim import simulate
from dpsim.engine import Steps


@pytest.fixture(scope="module")
def interval(tiny):
    """Low and high of steps of ``times`` seconds, (steps, workers)."""
    result = simulate(tiny(1))

    def found(times):
        steps = Steps.empty(*np.shape(times))
        steps.compute[:] = times
        step_time = replace(result, steps=steps).step_time_s
        return step_time["low"], step_time["high"]

    return found


@pytest.mark.parametrize(("steps", "of_low"), [(8, 1), (12, 3)])
def test_it_cuts_two_and_a_half_percent_at_either_end(interval, steps, of_low):
    """Half of the steps take 0 s, half take 1 s: a resample has Binomial(steps, 1/2) of the latter.

    Of 8 steps at most 0 with probability 0.4 %, at most 1 with 3.5 %: the percentile is 1 of 8. Of
    12 at most 2 with 1.9 %, at most 3 with 7.3 %: it is 3 of 12. Only 1.9 to 3.5 % give both.
    """
    times = np.repeat([0.0, 1.0], steps // 2)[:, None]
    assert interval(times) == pytest.approx((of_low / steps, 1 - of_low / steps))


def test_workers_of_a_step_are_one_observation(interval):
    """Each step is 0 s for one worker and 1 s for the other: its mean is never anything but 0.5."""
    assert interval([[0.0, 1.0], [1.0, 0.0]] * 4) == (0.5, 0.5)


def test_long_runs_are_resampled_in_500_blocks_of_neighbouring_steps(interval):
    """A block of two steps, one of 0 s and one of 1 s, has no spread; 500 steps are their own
    blocks.
    """
    assert interval(np.tile([0.0, 1.0], 500)[:, None]) == (0.5, 0.5)
    low, high = interval(np.tile([0.0, 1.0], 250)[:, None])
    assert low < 0.5 < high
