"""What all other sizes of a curve tell of one."""

import numpy as np
import pytest

from dpsim.network.libraries.nccl import NcclMachine
from validate.published.nccl.own_curve import by_other_sizes
from validate.published.nccl.scores import Score
from validate.published.nccl.table import Case

MACHINE = NcclMachine("h100", 90, "nvswitch", 450e9)


def curve(measured, counts):
    case = Case("a", "a", MACHINE, "all_reduce", 4, "nccl-tests", {})
    rows = zip(measured, counts, strict=True)
    return [
        Score(case, 1, 1024.0 * 2**place, 1.0, time, "", counted)
        for place, (time, counted) in enumerate(rows)
    ]


def test_a_size_is_corrected_by_its_neighbours_and_not_by_itself():
    (corrected,) = by_other_sizes(curve([2.0, 99.0, 2.0], [False, True, False]))
    near = 2 * np.exp(-1 / 2)
    assert corrected.predicted == pytest.approx(2 ** (near / (near + 0.1)))
    assert corrected.measured == 99


def test_rows_of_one_size_tell_nothing_of_one_another_and_curves_nothing_of_other_curves():
    alone = curve([2.0], [True])
    assert [
        row.predicted for row in by_other_sizes(alone * 2 + curve([9.0, 9.0], [False] * 2))
    ] == [
        1.0,
        1.0,
    ]
