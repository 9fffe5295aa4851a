"""What a calibrated curve makes of the sizes that are known."""

from dataclasses import replace

import numpy as np
import pytest

from dpsim.network.libraries.nccl import NcclMachine
from validate.published.nccl.regimes import towards_smooth
from validate.published.nccl.table import Case

SIZES = np.exp2(np.arange(10.0, 19.0))
ROOT = 1e-5 * np.sqrt(SIZES / SIZES[0])  # s: a straight line, ln over ln


def case(places):
    """The curve at some of the sizes."""
    machine = NcclMachine("gpu", 90, "nvswitch", 450e9)
    whole = Case("curve", "machine", machine, "all_reduce", 4, "nccl-tests", {})
    at = list(places)
    return replace(whole, nbytes=SIZES[at].tolist(), times=ROOT[at].tolist())


EVERY, KNOWN = case(range(9)), case([0, 4, 8])


def test_a_model_on_the_curve_stays_there():
    assert towards_smooth(ROOT, KNOWN, EVERY) == pytest.approx(ROOT)


@pytest.mark.parametrize("factor", [3.0, 1 / 3])
def test_a_jump_between_known_sizes_is_drawn_to_the_curve_through_them(factor):
    jump = np.where(np.arange(9) == 6, factor, 1.0)
    found = towards_smooth(ROOT * jump, KNOWN, EVERY) / ROOT
    distance = abs(np.log(factor))
    left = 1 - 0.7 * distance / (distance + 0.2)
    assert found == pytest.approx(jump**left)


@pytest.mark.parametrize("known", [case([0, 8]), case([0]), case([0, 1])])
def test_where_the_known_sizes_are_far_apart_or_past_the_model_stands(known):
    jump = np.where(np.arange(9) == 6, 3.0, 1.0)
    assert towards_smooth(ROOT * jump, known, EVERY) == pytest.approx(ROOT * jump)
