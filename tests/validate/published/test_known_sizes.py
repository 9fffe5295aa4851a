"""What a calibrated curve makes of the sizes that are known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator

from dpsim.network.libraries.nccl import NcclMachine
from validate.published.nccl.known_sizes import (
    between_the_known,
    smooth_log_seconds,
    towards_smooth,
    trust,
    usual_step,
)
from validate.published.nccl.table import Case

SIZES = np.exp2(np.arange(10.0, 19.0))
# s: a straight line over bytes, and ln over ln
LINE = 1e-5 * SIZES / SIZES[0]


def case(places):
    """The curve at some of the sizes."""
    machine = NcclMachine("gpu", 90, "nvswitch", 450e9)
    whole = Case("curve", "machine", machine, "all_reduce", 4, {})
    at = list(places)
    return replace(whole, nbytes=SIZES[at].tolist(), times=LINE[at].tolist())


EVERY, KNOWN = case(range(9)), case([0, 4, 8])


def test_a_model_on_the_curve_stays_there():
    assert towards_smooth(LINE, KNOWN, EVERY) == pytest.approx(LINE)


@pytest.mark.parametrize("factor", [3.0, 1 / 3])
def test_a_jump_between_known_sizes_is_drawn_to_the_curve_through_them(factor):
    jump = np.where(np.arange(9) == 6, factor, 1.0)
    found = towards_smooth(LINE * jump, KNOWN, EVERY) / LINE
    distance = abs(np.log(factor))
    left = 1 - 0.85 * distance / (distance + 0.05)
    assert found == pytest.approx(jump**left)


def test_the_smooth_curve_lies_between_a_monotone_cubic_and_a_latency_with_a_rate():
    latency = 15 * LINE[0]
    late = replace(KNOWN, times=(np.array(KNOWN.times) + latency).tolist())
    cubic = PchipInterpolator(np.log2(late.nbytes), np.log(late.times))(np.log2(SIZES))
    found = smooth_log_seconds(late, SIZES)
    assert found == pytest.approx((cubic + np.log(LINE + latency)) / 2)
    assert cubic[2] > found[2]


def test_between_sizes_far_apart_the_curve_is_a_latency_with_a_rate():
    ends = case([0, 8])
    late = replace(ends, times=(np.array(ends.times) + LINE[0]).tolist())
    assert smooth_log_seconds(late, SIZES) == pytest.approx(np.log(LINE + LINE[0]))


@pytest.mark.parametrize("known", [case([0]), case([0, 1])])
def test_past_the_known_sizes_the_model_stands(known):
    jump = np.where(np.arange(9) == 6, 3.0, 1.0)
    assert towards_smooth(LINE * jump, known, EVERY) == pytest.approx(LINE * jump)


def test_how_far_a_description_misses_steps_is_their_root_mean_square_and_what_was_usual_twice():
    times = np.array(KNOWN.times)
    # Twice as slow throughout is as good: the known sizes say so.
    right = usual_step([KNOWN] * 20, [2 * times] * 20)
    wrong = usual_step([KNOWN] * 20, [times * np.array([1, 2, 1])] * 20)
    assert right == pytest.approx(np.sqrt(2 * 0.2**2 / 42))
    assert wrong == pytest.approx(np.sqrt((40 * np.log(2) ** 2 + 2 * 0.2**2) / 42))
    # Of one size nothing follows: what is usual stands.
    assert usual_step([case([0])], [times[:1]]) == pytest.approx(0.2)


def test_a_description_is_believed_less_between_sizes_whose_step_it_misses():
    late = LINE * np.where(np.arange(9) > 4, 1.2, 1.0)
    found = trust(KNOWN, EVERY, late, 0.1)
    right, wrong = 0.1**2 / 2, (0.1**2 + np.log(1.2) ** 2) / 2
    of_intervals = [0.1**2] + [right] * 4 + [wrong] * 4
    assert found == pytest.approx(0.05**2 / (0.05**2 + np.array(of_intervals)))


@pytest.mark.parametrize(("usual", "believed"), [(0.0, 1.0), (0.05 * np.sqrt(2), 0.5), (1e6, 0.0)])
def test_a_believed_description_keeps_its_bumps(usual, believed):
    bump = np.where(np.arange(9) == 6, 1.2, 1.0)
    found = between_the_known(KNOWN, EVERY, LINE, 3 * LINE * bump, usual)
    assert found / LINE == pytest.approx(bump**believed)


def test_no_size_takes_longer_than_a_larger_known_one():
    jump = np.where(np.arange(9) == 6, 30.0, 1.0)
    found = between_the_known(KNOWN, EVERY, LINE, LINE * jump, 0.0)
    assert found[6] == pytest.approx(1.1 * LINE[8])
