"""Words of step-time tables that the public ones do not have: another model, a later link or card."""

import pytest
from step_rows import written

from validate.published.nccl import read_table
from validate.published.scaling.model import inner_rate, nic_rate, weight_count
from validate.published.tables import constants_file, model_named

SETTINGS = constants_file("scaling/settings.yaml")


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
    ("text", "gigabytes"),
    [
        ("NVLink5+NVSwitch", 650),
        ("NVLink 4", 370),
        ("NVSwitch", 250),
        ("xGMI", 310),
        ("PCIe Gen5 x16", 20),
        ("PCIe 3.0", 9),
        ("NVLink (2 links)", 45),
    ],
)
def test_links_inside_a_node(text, gigabytes):
    assert inner_rate(text, SETTINGS) == gigabytes * 1e9


@pytest.mark.parametrize(
    ("text", "gigabits"),
    [
        ("8x400G", 3200),
        ("3.2Tbps InfiniBand", 3200),
        ("Slingshot-11 4x200G", 800),
        ("Slingshot 11", 200),
        ("4x HDR200", 800),
        ("NDR", 400),
        ("8x V100, 25Gbps", 25),
        ("not stated", 10),
    ],
)
def test_cards_of_a_node(text, gigabits):
    assert nic_rate(text, SETTINGS) == gigabits * 1e9 / 8


def test_parameters_are_the_tables_then_the_catalogues_then_those_of_a_usual_model():
    assert weight_count("ResNet-50 v1.5", SETTINGS) == 25.6e6
    assert weight_count("GPT-2 XL", SETTINGS) == pytest.approx(1.558e9, rel=1e-3)
    assert weight_count("Frobnicator", SETTINGS) == 60e6


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
