"""Words of step-time tables that the public ones do not have: another model, a later link or card."""

import pytest
from step_rows import written

from validate.published.nccl.table import read_table
from validate.published.tables.training import model_named


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ResNet-50 v1.5", "ResNet-50"),
        ("resnet-20 (CIFAR-10)", "ResNet-20"),
        ("ResNet-200", None),
        ("SSD300", "SSD"),
        ("GPT-2", "GPT-2"),
        ("GPT-2 (124M)", "GPT-2"),
        ("GPT-2 XL", None),
        ("GPT-2-medium", None),
        ("AlexNet-like", None),
    ],
)
def test_a_longer_name_may_be_another_model(name, meant):
    assert model_named(name, ["ResNet-50", "ResNet-20", "SSD", "GPT-2"]) == meant


def test_the_longest_name_counts():
    assert model_named("VGG-16 (CIFAR-10)", ["VGG", "VGG-16", "VGG-16 (CIFAR"]) == "VGG-16 (CIFAR"


@pytest.mark.parametrize(
    ("columns", "operation"),
    [
        ({"collective": "AllReduce"}, "all_reduce"),
        ({"collective": "all-to-all"}, "alltoall"),
        ({"collective": "ReduceScatter", "op": "in-place"}, "reduce_scatter"),
        ({"op": "allgather"}, "all_gather"),
        ({"op": "out_of_place"}, "all_reduce"),
        ({}, "all_reduce"),
    ],
)
def test_names_of_collectives(columns, operation, tmp_path):
    row = {
        "case_id": "a",
        "machine": "a",
        "nodes": "1",
        "gpus_per_node": "8",
        "gpu": "H100",
        "intra_link": "NVLink4",
        "inter_link": "none",
        "bytes": "1024",
        "time_us": "20",
    } | columns
    case = read_table(written(tmp_path / "table.csv", [row]), "nccl-tests")[0]
    assert case.op == operation
