"""How sure a curve is of which every fourth size is known."""

import numpy as np
import pytest

from dpsim.network.libraries.nccl import NcclMachine
from tools.refits.nccl_calibrated import residuals
from validate.published.nccl.scores import Score
from validate.published.nccl.table import Case

IB = NcclMachine("h100", 90, "nvswitch", 450e9, nodes=2, transport="ib", nic_rate=400e9)


def score(name, nbytes, factor, machine=IB, is_calibrated=True):
    case = Case(name, name, machine, "all_reduce", 4, {})
    return Score(case, 1, nbytes, 1.0, factor, "", True, is_calibrated=is_calibrated)


@pytest.mark.parametrize("nbytes", [2**10, 2**30])
@pytest.mark.parametrize("nodes", [1, 2])
def test_known_sizes_make_an_interval_of_tenths(nodes, nbytes):
    transport = {} if nodes == 2 else {"nodes": 1, "transport": "none", "nic_rate": 0.0}
    machine = NcclMachine("h100", 90, "nvswitch", 450e9, **transport) if transport else IB
    known, described = (
        score("a", nbytes, 1.0, machine, is_calibrated).interval for is_calibrated in (True, False)
    )
    assert known.low < 1 < known.high
    assert known.high / known.low < described.high / described.low
    assert known.extrapolated == ()


def test_residuals_are_those_of_the_next_machine_and_hold_what_they_did_not_see():
    """Nine machines are off by -10 to 10 %, evenly."""
    sizes = 2**10, 2**30
    scores = [
        score(f"{several} {name}", nbytes, float(np.exp(off)), machine)
        for several, machine in (("one", NcclMachine("h100", 90, "nvswitch", 450e9)), ("two", IB))
        for name in range(9)
        for nbytes in sizes
        for off in np.linspace(-0.1, 0.1, 101)
    ]
    found = residuals(scores)
    assert [each["machines"] for each in found["families"]] == [9] * 4
    for each in found["families"]:
        assert each["coverage"] == pytest.approx(0.9, abs=0.02)
        for arm in each["spread"]:
            assert arm == pytest.approx([0.055, 0.082, 0.0911], abs=0.003)
