"""What a calibrated model leaves, interpolated over size.

Exact where nothing is known, close to what was measured, robust.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from validate.published.nccl.residual_curves import Curve, corrections

SIZES = np.exp2(np.arange(10.0, 20.0))
HALF = 5


def curve(residual, branch=0, shared="all_reduce"):
    residual = np.broadcast_to(np.asarray(residual, dtype=float), SIZES.shape).copy()
    return Curve(shared, SIZES, np.broadcast_to(np.asarray(branch), SIZES.shape), residual)


def seen(value, *where):
    """A residual that is measured at the given places only."""
    residual = np.full(len(SIZES), np.nan)
    residual[list(where)] = value
    return residual


def test_nothing_measured_corrects_nothing():
    (factor,) = corrections([curve(np.nan)])
    assert factor.tolist() == [1.0] * len(SIZES)


def test_a_model_that_is_right_stays_as_it_is():
    (factor,) = corrections([curve(seen(0.0, 0, 4, 8))])
    assert factor == pytest.approx(1.0)


def test_between_two_measured_sizes_lies_what_both_say():
    (factor,) = corrections([curve(seen(0.1, 2, 6))])
    assert factor[2:7] == pytest.approx(np.exp(0.1), abs=0.03)


def test_far_from_all_measured_sizes_the_model_stands():
    far = Curve(
        "all_reduce", np.exp2([10.0, 60.0]), np.zeros(2, dtype=np.int64), np.array([0.2, np.nan])
    )
    assert corrections([far])[0][1] == pytest.approx(1.0, abs=1e-6)


def test_another_protocol_learns_nothing():
    branch = np.repeat([0, 1], HALF)
    (factor,) = corrections([curve(seen(0.1, 0, 4), branch)])
    assert factor[:HALF].min() > 1.05
    assert factor[HALF:].tolist() == [1.0] * HALF


def test_cases_of_one_operation_share_and_others_do_not():
    measured, nearest_machines, stranger = (
        curve(seen(0.1, 0, 4, 8)),
        curve(np.nan),
        curve(np.nan, shared="alltoall"),
    )
    own, shared, none = corrections([measured, nearest_machines, stranger])
    assert 1.0 < shared[4] < own[4]
    assert none.tolist() == [1.0] * len(SIZES)


def test_one_row_that_is_far_off_moves_little():
    quiet = [curve(seen(0.0, 0, 4, 8)) for _ in range(4)]
    loud = curve(seen(np.array([0.0, 2.0, 0.0]), 0, 4, 8))
    assert corrections([*quiet, loud])[0] == pytest.approx(1.0, abs=0.02)


@given(st.lists(st.floats(-0.3, 0.3), min_size=3, max_size=3))
def test_a_correction_goes_no_further_than_the_rows_say(residuals):
    (factor,) = corrections([curve(seen(np.array(residuals), 0, 4, 8))])
    assert np.abs(np.log(factor)).max() <= np.abs(residuals).max() * 1.1 + 1e-12
