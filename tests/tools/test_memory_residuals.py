"""What is kept of published peaks of memory: the errors of the next configuration."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from tools.refits.memory_residuals import FILE, Peak, coverage, peaks, residual_table

NORMAL = norm.ppf((np.arange(400) + 0.5) / 400)


def normal_peaks(cases, spread, architecture="hopper"):
    """Normal residuals of so many configurations, a peak a quantile each."""
    return [
        Peak(f"{architecture} {case}", "llama3-8b", architecture, "bf16", 3, spread * float(level))
        for case in range(cases)
        for level in NORMAL
    ]


def width(table, which):
    below, above = table[which]
    return below[-1] + above[-1]


def test_the_file_is_what_the_tool_finds_in_the_table():
    assert json.loads(FILE.read_text()) == residual_table(peaks())


def test_what_is_unlike_the_measured_is_the_next_generation_of_gpus():
    """Of two generations: wider than of nine configurations, whose rows are the same."""
    found = residual_table([*normal_peaks(9, 0.1), *normal_peaks(1, 0.1, "ampere")])
    assert width(found, "unlike") > width(found, "alike")


def test_few_configurations_say_less_than_many():
    def alike(cases):
        return width(
            residual_table([*normal_peaks(cases, 0.1), *normal_peaks(1, 0.1, "ampere")]), "alike"
        )

    assert alike(40) < alike(8) < alike(3)


def test_a_configuration_s_own_residuals_are_no_part_of_its_interval():
    good = normal_peaks(6, 0.02)
    bad = [replace(peak, case="bad", residual=3.0) for peak in normal_peaks(1, 0.0)]
    assert coverage(good) > 0.9
    assert coverage([*good, *bad]) == pytest.approx(6 / 7, abs=0.05)


def test_seven_of_the_eight_published_peaks_lie_inside_what_the_others_say():
    assert coverage(peaks()) == 7 / 8
