"""What is kept of the residuals of NCCL's model: those of the next machine."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, t

from dpsim.network.libraries.nccl import NcclMachine
from tools.refits.nccl_residuals import coverage, residual_table, stretched
from tools.refits.residual_quantiles import QUANTILES
from validate.published.nccl import Case, Score

NORMAL = norm.ppf(QUANTILES)
IB = NcclMachine("h100", 90, "nvswitch", 450e9, nodes=2, transport="ib", nic_rate=400e9)


def rows(machines, spread, transport="ib"):
    """Normal residuals of so many machines, a row a quantile each."""
    return [
        Score(case, line, 2**20, 1.0, float(np.exp(spread * level)), "", True)
        for name in range(machines)
        for case in [case_of(f"{transport} {name}", transport)]
        for line, level in enumerate(NORMAL)
    ]


def case_of(name, transport):
    machine = replace(IB, transport=transport)
    return Case(name, name, machine, "all_reduce", 4, "nccl-tests", {})


@pytest.mark.parametrize("draws", [2, 3, 18])
def test_quantiles_of_the_next_draw_are_student_s(draws):
    wider = np.sqrt(1 + 1 / draws)
    shifted = [0.3 + level for level in NORMAL]
    assert stretched(shifted, draws) == pytest.approx(0.3 + wider * t.ppf(QUANTILES, draws - 1))


def test_one_draw_says_nothing_of_the_next():
    assert stretched(NORMAL, 1).tolist() == NORMAL.tolist()


def test_a_family_of_few_machines_is_wider():
    def width(machines):
        scores = [*rows(machines, 0.1), *rows(3, 0.3, "roce")]
        table = residual_table(scores, scores)
        family = next(each for each in table["families"] if each["generations"] == ["ib"])
        return family["residuals"][-1] - family["residuals"][0]

    assert 0.2 < width(60) < width(10) < width(4) < width(2)


def test_generations_weigh_alike_in_what_is_unlike_all_families():
    """Of ten machines of one transport and one of another half the residuals are the latter's."""
    scores = [*rows(10, 0.01), *rows(1, 1.0, "roce")]
    (found,) = residual_table(scores, scores)["unlike"]
    assert (found["is_one_node"], found["sizes"], found["generations"]) == (False, "from 1 MiB", 2)
    assert found["residuals"][QUANTILES.index(0.9)] > 0.5


def test_a_machine_s_own_residuals_are_no_part_of_its_interval():
    """One of six machines is off by ten times: the others' intervals have all, its own nothing."""
    good = [*rows(5, 0.05), *rows(3, 0.05, "roce")]
    bad = [replace(row, case=case_of("bad", "ib"), measured=10.0) for row in rows(1, 0.0)]
    group = "multi-node IB/RoCE"
    assert coverage(good, good)[group] > 0.9
    assert coverage([*good, *bad], [*good, *bad])[group] == pytest.approx(8 / 9, abs=0.05)


def test_rows_of_a_generation_of_one_machine_are_a_group_besides():
    scores = [*rows(4, 0.05), *rows(1, 5.0, "efa-v1")]
    found = coverage(scores, scores)
    assert found["extrapolated"] == found["multi-node EFA/TCPX"] < found["multi-node IB/RoCE"]
