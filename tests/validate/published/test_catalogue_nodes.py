"""Nodes of the catalogue that tables measured, predicted by name: no worse than is committed."""

from functools import cache

import numpy as np
import pytest

from tools.catalogue_errors import all_cases, families, node_cases
from validate.published.nccl.scores import summary
from validate.published.nccl.table import kind_of, read_table

CASES = cache(all_cases)
# The mean over machines of each machine's mean error, over all sizes and from 1 MiB on, rounded up
# to a point.
BOUNDS = {
    "NVLink mesh, one node": (0.03, 0.03),
    "NVLink mesh, several nodes": (0.15, 0.18),
    "NVSwitch, one node": (0.05, 0.04),
    "NVSwitch, several nodes": (0.15, 0.14),
    "PCIe, one node": (0.11, 0.06),
    "xGMI, one node": (0.06, 0.05),
    "xGMI, several nodes": (0.04, 0.04),
}
# What does not count for its quality still tells a node that is described wrongly from others: of
# each such machine half of the rows from 1 MiB on are off by no more than this.
APART = 0.45
INCOMPLETE = ("partial", "machine_inferred")

TABLE = """\
case_id,machine,nodes,gpus_per_node,gpu,intra_link,inter_link,op,bytes,time_us,quality
named,1x DGX H100,1,8,H100-SXM5-80GB,NVLink4+NVSwitch3,none,out-of-place,1073741824,{us},ok
none,1x an 8-GPU server,1,8,H100-SXM5-80GB,NVLink4+NVSwitch3,none,out-of-place,1073741824,1,ok
cards,2x DGX H100,2,8,H100-SXM5-80GB,NVLink4,InfiniBand NDR 2x400Gbps,out-of-place,1073741824,1,ok
mi300x_1n,1 node,1,8,MI300X,xGMI,none,out-of-place,1073741824,1,degraded_system
"""


@pytest.mark.parametrize("family", BOUNDS)
def test_a_node_of_the_catalogue_is_predicted_as_it_was_measured(family):
    found = families(CASES())
    every, large = BOUNDS[family]
    assert summary(found[family])["mean_over_machines"] <= every
    assert summary(found[f"{family}, from 1 MiB"])["mean_over_machines"] <= large


def test_every_family_that_was_measured_has_a_bound():
    assert {name for name in families(CASES()) if "MiB" not in name} == set(BOUNDS)


def test_machines_of_doubtful_quality_contradict_no_node():
    rows: dict[str, list[float]] = {}
    for case in CASES():
        score = case.scores[0]
        if score.case.quality in INCOMPLETE:
            large = [row.ape for row in case.scores if row.nbytes >= 2**20]
            rows.setdefault(f"{case.node}: {score.case.machine_name}", []).extend(large)
    off = {name: np.median(errors) for name, errors in rows.items() if errors}
    assert len(off) > 8
    assert {name: error for name, error in off.items() if error > APART} == {}


def test_a_machine_counts_where_it_is_called_by_the_node_s_name_and_is_as_the_node_is(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text(TABLE.format(us=1))
    (first, *others) = node_cases(table, kind_of(table))
    assert (first.node, first.apart) == ("dgx-h100", None)
    assert [(case.node, case.apart) for case in others] == [
        ("dgx-h100", "cards: ib of 100 GB/s"),
        ("mi300x-8gpu", "quality: degraded_system"),
    ]


def test_a_node_that_takes_twice_as_long_as_it_says_is_off_by_half(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text(TABLE.format(us=1))
    predicted = node_cases(table, kind_of(table))[0].scores[0].predicted
    table.write_text(TABLE.format(us=2e6 * predicted))
    found = families(node_cases(table, kind_of(table)))
    assert summary(found["NVSwitch, one node"])["mean_over_machines"] == pytest.approx(0.5)


def test_every_listed_name_is_one_of_the_tables():
    from tools.catalogue_errors import DATA, TABLES
    from validate.published.tables.packaged import constants_file

    known = set()
    for name in TABLES:
        for case in read_table(DATA / name, kind_of(DATA / name)):
            known |= {case.machine_name, case.identity.get("case_id")}
    assert set(constants_file("nccl/catalogue_names.yaml")) <= known
