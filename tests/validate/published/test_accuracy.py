"""How far off the shipped model is on the public tables, predicted without the machine in question.

No worse than is committed.

Each bound is the committed error of the mean over machines, rounded up to half a point; make it
lower when the model gets better.
"""

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dpsim.network.libraries.nccl import shipped_constants
from tools.refits.nccl_refit import training_cases
from validate.published import compare
from validate.published.nccl.joint_fit import fit_without
from validate.published.nccl.sources import constants, fitted_machine

DATA = Path(__file__).parents[3] / "validate" / "published" / "data"
FILES = {
    "nccl_tests": "nccl-tests",
    "nccl_tests_2": "nccl-tests",
    "nccl_single_node": "nccl-single-node",
}


@cache
def groups(name, regime):
    return compare(DATA / f"{name}.csv", FILES[name], regime).groups


SPECIFICATION = [
    ("nccl_single_node", "single-node NVLink", 0.115, 0.090),
    ("nccl_single_node", "single-node PCIe", 0.545, 0.575),
    ("nccl_tests", "single-node NVLink", 0.085, 0.065),
    ("nccl_tests", "single-node PCIe", 0.235, 0.330),
    ("nccl_tests", "multi-node IB/RoCE", 0.185, 0.180),
    ("nccl_tests", "multi-node EFA/TCPX", 0.190, 0.280),
    ("nccl_tests_2", "single-node NVLink", 0.100, 0.070),
    ("nccl_tests_2", "single-node PCIe", 0.225, 0.205),
    ("nccl_tests_2", "multi-node IB/RoCE", 0.155, 0.130),
    ("nccl_tests_2", "multi-node EFA/TCPX", 0.100, 0.100),
    ("nccl_tests_2", "multi-node sockets/Slingshot", 0.250, 0.270),
    ("nccl_tests_2", "multi-node other collectives", 0.250, 0.210),
]
CALIBRATED = [
    ("nccl_tests", "single-node", 0.050, 0.035),
    ("nccl_tests", "multi-node", 0.070, 0.050),
    pytest.param("nccl_tests_2", "single-node", 0.055, 0.035, marks=pytest.mark.long),
    pytest.param("nccl_tests_2", "multi-node", 0.060, 0.050, marks=pytest.mark.long),
]
# The same of every fourth or twelfth machine: each is calibrated by itself, and all of them take a
# minute.
CALIBRATED_SOME = [
    ("nccl_tests", 4, "single-node", 0.050, 0.040),
    ("nccl_tests", 4, "multi-node", 0.040, 0.040),
    ("nccl_tests_2", 12, "single-node", 0.050, 0.050),
    ("nccl_tests_2", 12, "multi-node", 0.055, 0.050),
    pytest.param("nccl_tests_2", 4, "single-node", 0.045, 0.040, marks=pytest.mark.wide),
    pytest.param("nccl_tests_2", 4, "multi-node", 0.055, 0.050, marks=pytest.mark.wide),
]


def check(found, group, every, large):
    assert found[group]["mean_over_machines"] <= every
    assert found[f"{group}, from 1 MiB"]["mean_over_machines"] <= large


@pytest.mark.parametrize(("table", "group", "every", "large"), SPECIFICATION)
def test_specification(table, group, every, large):
    check(groups(table, "specification"), group, every, large)


@pytest.mark.wide
@pytest.mark.parametrize(("table", "group", "every", "large"), CALIBRATED)
def test_calibrated(table, group, every, large):
    check(groups(table, "calibrated"), group, every, large)


@pytest.fixture(scope="module")
def groups_of_some(tmp_path_factory):
    """By table, the groups of every so many of its machines, calibrated."""

    @cache
    def found(table, step):
        with (DATA / f"{table}.csv").open(newline="", encoding="utf-8") as stream:
            rows = [*csv.DictReader(stream)]
        machines = [*dict.fromkeys(row["machine"] for row in rows)][::step]
        path = tmp_path_factory.mktemp("some") / f"{table}.csv"
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(row for row in rows if row["machine"] in machines)
        return compare(path, FILES[table], "calibrated").groups

    return found


@pytest.mark.parametrize(("table", "step", "group", "every", "large"), CALIBRATED_SOME)
def test_calibrated_on_some_machines(groups_of_some, table, step, group, every, large):
    check(groups_of_some(table, step), group, every, large)


@pytest.mark.wide
def test_calibrated_systems_of_one_node():
    found = groups("nccl_single_node", "calibrated")
    assert found["single-node NVLink"]["mean_over_machines"] <= 0.050


@cache
def known_cases():
    return tuple(training_cases())


def test_shipped_constants_were_fitted_on_every_machine_that_can_be_left_out():
    cases = known_cases()
    assert all(fitted_machine([case]) == case.machine_name for case in cases)
    assert {key for key, _ in shipped_constants()} >= {
        "common",
        "ib",
        "efa",
        "pcie",
        "nvlink-hopper",
    }


@pytest.mark.wide
@pytest.mark.parametrize("machine", ["1x AWS P6-B200 (8x B200, NVLink5, 8x400Gbps EFAv4)"])
def test_what_was_left_out_took_no_part(machine):
    """The shipped constants without a machine are those that a fit from scratch on the others
    gives.
    """
    known, _ = constants(machine)
    fitted = fit_without(known_cases(), machine)
    assert known == pytest.approx({slot: fitted[slot] for slot in known}, abs=2e-3)
    assert not any(key.startswith("machine: ") and machine in key for key, _ in fitted)
    assert np.isfinite([*known.values()]).all()
