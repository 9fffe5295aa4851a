"""What is kept of the residuals of NCCL's model: those of the next machine."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from dpsim.network.libraries.nccl import NcclMachine
from tools.refits.nccl_residuals import coverage, residual_table
from tools.refits.residual_quantiles import spread_of
from validate.published.nccl.scores import Score
from validate.published.nccl.table import Case

NORMAL = norm.ppf((np.arange(400) + 0.5) / 400)
IB = NcclMachine("h100", 90, "nvswitch", 450e9, nodes=2, transport="ib", nic_rate=400e9)
LARGE = "multi-node IB/RoCE, from 1 MiB"


def rows(machines, spread, transport="ib"):
    """Normal residuals of so many machines, a row a quantile each."""
    return [
        Score(case, line, 2**20, 1.0, float(np.exp(spread * level)), "", True)
        for number in range(machines)
        for case in [case_of(f"{transport} {number}", transport, number)]
        for line, level in enumerate(NORMAL)
    ]


def case_of(name, transport, number):
    machine = replace(IB, transport=transport, nic_rate=(400 + number) * 1e9)
    return Case(name, name, machine, "all_reduce", 4, "nccl-tests", {})


def table_of(*scores):
    every = [row for rows in scores for row in rows]
    return residual_table(every, every)


def width(spread):
    below, above = spread
    return below[-1] + above[-1]


def test_nine_in_ten_of_rows_lie_inside_their_spread():
    residual = np.concatenate([NORMAL, 3 * NORMAL])
    below, above = spread_of(residual, [str(number) for number in range(len(residual))])
    assert np.mean((residual > -below[-1]) & (residual < above[-1])) == pytest.approx(0.9, abs=0.03)
    (own, same) = spread_of(residual + 0.3, ["a"] * len(residual), even=True)
    assert own == same


def test_no_prediction_lies_at_an_end_of_its_interval():
    below, above = spread_of(np.linspace(0.0, 0.9, 50), ["a"] * 50)
    assert below[-1] == pytest.approx(above[-1] / 3, rel=0.01)


def test_a_family_of_few_machines_is_wider():
    def family(machines):
        (found,) = table_of(rows(machines, 0.1))["families"]
        return width(found["spread"])

    assert family(60) < family(10) < family(4) < family(3)


def test_what_has_a_twin_is_known_apart():
    """Three machines of one description agree; one of another is off by far."""
    twins = [
        replace(row, case=case_of(f"twin {number}", "ib", 0))
        for number in range(3)
        for row in rows(1, 0.01)
    ]
    (family,) = table_of(twins, rows(4, 1.0, "roce"))["families"]
    assert width(family["twins"]) < 0.1 * width(family["spread"])


def test_generations_that_are_left_out_make_what_is_unlike_all_families():
    (found,) = table_of(rows(10, 0.01), rows(1, 1.0, "roce"))["unlike"]
    assert (found["is_one_node"], found["sizes"], found["generations"]) == (False, "from 1 MiB", 2)
    assert found["spread"][1][-1] > 0.5


def test_the_measured_machines_say_what_they_reached():
    (found,) = table_of(rows(1, 0.0))["measured"]
    assert (found["source"], found["bytes"]) == ("ib 0", 2**20)
    assert found["bandwidth_Bps"] == pytest.approx(2 * 15 / 16 * 2**20)


def test_a_machine_s_own_residuals_are_no_part_of_its_interval():
    """One of six machines is off by ten times: the others' intervals have all, its own nothing."""
    good = [*rows(5, 0.05), *rows(3, 0.05, "roce")]
    bad = [replace(row, case=case_of("bad", "ib", 9), measured=10.0) for row in rows(1, 0.0)]
    assert coverage(good, good)[LARGE]["inside"] > 0.85
    found = coverage([*good, *bad], [*good, *bad])[LARGE]
    assert found["inside"] == pytest.approx(8 / 9, abs=0.06)
    assert found["rows"] == 9 * len(NORMAL)


def test_rows_of_a_generation_of_one_machine_are_a_group_besides():
    scores = [*rows(4, 0.05), *rows(1, 5.0, "efa-v1")]
    assert coverage(scores, scores)["extrapolated"]["inside"] < 0.5
