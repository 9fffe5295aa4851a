"""S(B) = S_min (1 + B_crit / B), and what follows from it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.base.errors import DpsimError
from dpsim.convergence import StepLaw

LAW = StepLaw(least_samples=1_000_000, critical_batch=1000)
POSITIVE = st.floats(1e-3, 1e9)


def test_the_critical_batch_needs_twice_the_least_steps_and_twice_the_least_samples():
    assert LAW.steps(1000) == 2000
    assert LAW.samples(1000) == 2_000_000
    assert LAW.sample_efficiency(1000) == LAW.step_efficiency(1000) == 0.5


@given(POSITIVE, POSITIVE, POSITIVE)
def test_steps_and_samples_trade_off_as_published(least, critical, batch):
    law = StepLaw(least, critical)
    assert law.samples(batch) == pytest.approx(batch * law.steps(batch))
    steps, samples = law.steps(batch) / (least / critical) - 1, law.samples(batch) / least - 1
    assert steps == pytest.approx(critical / batch, rel=1e-6, abs=1e-9)
    assert samples == pytest.approx(batch / critical, rel=1e-6, abs=1e-9)


@given(POSITIVE, POSITIVE)
def test_a_larger_batch_needs_fewer_steps_and_more_samples(one, other):
    small, large = sorted((one, other))
    assert LAW.steps(large) <= LAW.steps(small) * (1 + 1e-12)
    assert LAW.samples(large) >= LAW.samples(small) * (1 - 1e-12)


def test_errors_of_constants_add_up_where_each_of_them_matters():
    law = StepLaw(1e6, 1000, least_samples_error=0.1, critical_batch_error=0.3)
    assert law.log_error(1e-6) == pytest.approx(0.1)  # perfect scaling: B_crit says nothing
    assert law.log_error(1e12) == pytest.approx(math.hypot(0.1, 0.3))  # S = E_min / B_crit
    correlated = StepLaw(
        1e6, 1000, least_samples_error=0.3, critical_batch_error=0.3, correlation=1
    )
    assert correlated.log_error(1e12) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("batch", [0, -1, math.nan])
def test_a_batch_must_be_above_zero(batch):
    with pytest.raises(DpsimError, match="batch must be above 0, but got"):
        LAW.steps(batch)
