"""Machines of one description as predictions of one another."""

from dataclasses import replace

import pytest

from dpsim.network.libraries.nccl import NcclMachine
from tools.refits.nccl_refit import beside_twins
from validate.published.nccl.scores import Score
from validate.published.nccl.table import Case

MACHINE = NcclMachine("h100", 90, "nvswitch", 450e9)


def row(name, measured, nbytes=1024, **machine):
    case = Case(name, name, replace(MACHINE, **machine), "all_reduce", 4, {})
    return Score(case, 1, nbytes, 1.0, measured, "", True)


def test_a_row_is_predicted_by_the_mean_of_other_machines_each_of_which_counts_once():
    scores = [row("a", 3.0), row("b", 2.0), row("b", 2.0), row("c", 8.0)]
    rows, twins = beside_twins(scores)
    assert rows == scores
    assert [twin.predicted for twin in twins] == pytest.approx([4, 24**0.5, 24**0.5, 6**0.5])


def test_names_of_gpus_and_versions_of_nccl_are_no_part_of_a_description():
    rows, twins = beside_twins([row("a", 3.0), row("b", 2.0, gpu="h200", nccl_version=(2, 20))])
    assert [twin.predicted for twin in twins] == pytest.approx([2, 3])
    assert [one.predicted for one in rows] == [1, 1]


@pytest.mark.parametrize(
    "other",
    [row("a", 2.0), row("b", 2.0, nbytes=2048), row("b", 2.0, gpus_per_node=4)],
    ids=["the machine itself", "another size", "another description"],
)
def test_what_no_other_machine_of_the_description_has_is_not_compared(other):
    assert beside_twins([row("a", 3.0), other]) == ([], [])
