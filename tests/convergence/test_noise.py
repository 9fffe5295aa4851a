"""The gradient-noise form: exact where it can be worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.base.errors import DpsimError
from dpsim.convergence import (
    StepLaw,
    gain,
    noise_scale,
    steps_from_noise,
)

POSITIVE = st.floats(1e-2, 1e6)


def test_noise_scale_is_variance_of_one_sample_over_the_squared_norm():
    assert noise_scale(squared_norm=2.0, variance=3.0, batch=10) == 15.0


@given(POSITIVE, POSITIVE, POSITIVE)
def test_gain_is_one_at_the_base_batch_and_at_most_the_ratio_of_batches(noise, batch, base):
    assert gain(noise, base, base) == 1
    assert min(1, batch / base) - 1e-9 <= gain(noise, batch, base) <= max(1, batch / base) + 1e-9


@given(POSITIVE, POSITIVE)
def test_constant_noise_is_the_step_law_with_the_noise_as_critical_batch(noise, batch):
    base = 32.0
    law = StepLaw(least_samples=1000 * base / (1 + base / noise), critical_batch=noise)
    assert law.steps(base) == pytest.approx(1000)
    assert steps_from_noise(
        np.array([1000.0]), np.array([noise]), 1000, batch, base
    ) == pytest.approx(law.steps(batch))


def test_steps_add_up_over_periods_and_the_last_noise_holds_on():
    progress, noise = np.array([10.0, 20.0]), np.array([1.0, 1e12])
    # with nearly no noise a step is a step, with nothing but noise twice the batch is worth two
    assert steps_from_noise(progress, noise, 40, batch=2, base=1) == pytest.approx(
        10 / (2 / 1.5) + 30 / 2
    )
    assert steps_from_noise(progress, noise, 5, batch=2, base=1) == pytest.approx(5 / (2 / 1.5))


def test_numbers_that_cannot_be():
    with pytest.raises(DpsimError, match="squared norm must be above 0"):
        noise_scale(0, 1)
    with pytest.raises(DpsimError, match="target must be above 0"):
        steps_from_noise(np.ones(1), np.ones(1), 0, 1, 1)
