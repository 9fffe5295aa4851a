"""Fitting the law to runs.

Exact data come back, outliers do not pull, few runs lean on the noise scale.
"""

import numpy as np
import pytest

from dpsim.base.errors import DpsimError
from dpsim.convergence import StepLaw, fit_law, left_out_errors

TRUE = StepLaw(1e6, 800)
BATCHES = (32, 64, 128, 256, 512, 1024, 2048, 4096)


def steps(batches=BATCHES, law=TRUE):
    return [law.steps(batch) for batch in batches]


def test_exact_runs_give_their_constants_back():
    found = fit_law(BATCHES, steps(), noise_scale=800)
    assert found.least_samples == pytest.approx(1e6, rel=1e-3)
    assert found.critical_batch == pytest.approx(800, rel=1e-3)
    assert found.noise < 1e-3


def test_errors_cover_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(40):
        found = fit_law(
            BATCHES, np.array(steps()) * np.exp(rng.normal(scale=0.1, size=len(BATCHES)))
        )
        inside += (
            abs(np.log(found.critical_batch / TRUE.critical_batch))
            < 1.96 * found.critical_batch_error
        )
    assert inside >= 33


def test_one_unlucky_run_does_not_pull_the_others():
    measured = steps()
    measured[2] *= 3
    found = fit_law(BATCHES, measured)
    assert found.steps(1024) == pytest.approx(TRUE.steps(1024), rel=0.1)


def test_one_run_leaves_the_critical_batch_to_the_noise_scale():
    found = fit_law([64], [TRUE.steps(64)], noise_scale=500)
    assert found.critical_batch == pytest.approx(500, rel=1e-3)
    assert found.critical_batch_error == pytest.approx(np.log(3), rel=0.05)
    assert found.steps(64) == pytest.approx(TRUE.steps(64), rel=1e-6)


def test_left_out_runs_of_exact_data_are_predicted():
    assert np.abs(left_out_errors(BATCHES, steps(), [800.0] * len(BATCHES))).max() < 0.01


def test_a_left_out_run_keeps_its_own_numbers_to_itself():
    measured, noise = steps((32, 64, 128)), [700.0, 800.0, 900.0]
    before = left_out_errors((32, 64, 128), measured, noise)
    after = left_out_errors(
        (32, 64, 128), [measured[0], measured[1] * 5, measured[2]], [noise[0], 1e6, noise[2]]
    )
    assert (after[1] + 1) * 5 == pytest.approx(before[1] + 1)


def test_runs_that_cannot_be_fitted():
    with pytest.raises(
        DpsimError, match="batches and steps must be as many, and at least 1, but got 0 and 0"
    ):
        fit_law([], [])
    with pytest.raises(DpsimError, match="batches and steps must be above 0"):
        fit_law([1, 2], [3, 0])
    with pytest.raises(DpsimError, match="batches must be at least 2"):
        left_out_errors([1], [3])
