"""Rows of the ImageNet records as scenarios: what is read, what is assumed, and their files."""

import csv
from pathlib import Path

import pytest
from step_rows import written

from dpsim import load_scenario
from validate.published import compare_steps
from validate.published.step_tables.imagenet import SETTINGS, TABLE, read, read_plans
from validate.published.tables.csv_file import NotPredictedError, Row
from validate.published.tables.packaged import constants_file, packaged_rows
from validate.published.tables.scenario_files import scenario_of_row

DATA = Path("validate/published/data")
FOLDER = Path("scenarios/imagenet")
# The records with scenario files, by the name of their row.
FILES = {
    "he2016": "he-2016-8gpus",
    "goyal2017_rn101": "goyal-2017-resnet101-256gpus",
    "smith2017": "smith-2017-tpu-v2",
    "akiba2017": "akiba-2017-1024gpus",
    "jia2018": "jia-2018-2048gpus",
    "ying2018": "ying-2018-tpu-v3",
    "mikami2018v1": "mikami-2018-2176gpus",
    "mikami2018v2": "mikami-2018-3456gpus",
    "yamazaki2019": "yamazaki-2019-2048gpus",
    "mlperf_v1.1_nvidiadgxa100_resnet_8": "mlperf-1.1-resnet50-8xa100",
    "mlperf_v1.1_nvidiadgxa100_resnet_64": "mlperf-1.1-resnet50-64xa100",
    "mlperf_v1.1_nvidiadgxa100_resnet_1024": "mlperf-1.1-resnet50-1024xa100",
    "mlperf_v1.1_nvidiadgxa100_bert_64": "mlperf-1.1-bert-64xa100",
    "mlperf_v3.0_gigabyte8xh100_resnet_8": "mlperf-3.0-resnet50-8xh100",
}
with (DATA / TABLE).open(newline="", encoding="utf-8") as stream:
    ROWS = {row["record_id"]: row for row in csv.DictReader(stream)}


def record(name="goyal2017", **changes):
    """The steps of a row of the table, one for each plan."""
    return read_plans(Row(Path("one.csv"), 2, {**ROWS[name], **changes}))


def batches(steps):
    return [step.shown["predicted_global_batch"] for step in steps]


def test_a_record_that_says_all_assumes_next_to_nothing():
    (found,) = record()
    assert found.scenario["workload"]["batch_per_gpu"] == 32
    assert found.steps == pytest.approx(90 * 1_281_167 / 8192)
    assert found.shown["assumed"] == ["precision fp32"]
    cluster = scenario_of_row(found.scenario).cluster
    assert (
        cluster.nodes,
        cluster.ranks,
        cluster.network.nic.name,
        cluster.network.nics_per_node,
    ) == (32, 256, "ethernet-50g", 1)
    assert cluster.accelerator.name == "p100-sxm2"


def test_missing_values_are_assumed_and_listed():
    (found,) = record(epochs="", global_batch="", interconnect="")
    assert set(found.shown["assumed"]) == {
        "precision fp32", "90 epochs", "global batch of 16,384", "8 devices a node", "network cards of dgx1-p100",
    }  # fmt: skip
    assert batches([found]) == [16384]


def test_words_of_hardware_and_network():
    (abci,) = record("yamazaki2019")
    assert abci.scenario["cluster"]["nodes"] == 512
    assert abci.scenario["cluster"]["network"] == {
        "fabric": "single-switch",
        "nic": "ib-edr",
        "nics_per_node": 2,
    }
    (cores,), (single,) = record("smith2017"), record("tpuv2_single")
    assert (cores.gpus, single.gpus) == (128, 4)
    assert cores.scenario["cluster"]["network"] == {"fabric": "torus"}
    (geometric,) = batches(record(global_batch="34K-68K"))
    assert geometric == pytest.approx((34 * 68) ** 0.5 * 1024, rel=0.01)


def test_mlperf_takes_samples_from_the_reference_points():
    found = record("mlperf_v1.1_nvidiadgxa100_resnet_64")
    assert batches(found) == [1664, 3264, 4096, 8192, 13056]
    assert all(step.groups[0] == "suite mlperf" for step in found)
    samples = [step.steps * batch for step, batch in zip(found, batches(found), strict=True)]
    assert all(30 < each / 1_281_167 < 50 for each in samples)
    assert "samples and batch of MLPerf's reference points" in found[0].shown["assumed"]
    stated = record("mlperf_v1.1_nvidiadgxa100_resnet_64", global_batch="6528")
    assert batches(stated) == [6528]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hardware": "Cerebras"}, "hardware not known: Cerebras"),
        ({"model": "MiniGo (MLPerf)"}, "model not known: MiniGo"),
        ({"accelerators": ""}, "number of accelerators not stated"),
        ({"accelerators": "1e400"}, "or above 1,000,000"),
        ({"global_batch": 400 * "9"}, "global batch above 1,000,000,000"),
        (
            {"model": "VGG-16", "who": "MLPerf", "epochs": ""},
            "epochs not stated, and no reference points known of vgg16",
        ),
        ({"model": "BERT-large"}, "samples of an epoch not known"),
    ],
)
def test_unreadable_values_are_reported(changes, message):
    with pytest.raises(NotPredictedError, match=message.replace("(", r"\(")):
        record(**changes)


def test_a_record_is_predicted_in_steps_and_in_minutes(tmp_path):
    rows = [ROWS["goyal2017"], ROWS["goyal2017"] | {"hardware": "abacus"}]
    answer = compare_steps(written(tmp_path / "blind.csv", rows), "imagenet").to_json()
    (row,) = answer["rows"]
    steps = 90 * 1_281_167 / 8192
    assert row["measured_min"] == pytest.approx(60)
    assert row["measured_ms"] == pytest.approx(3600e3 / steps)
    assert row["predicted_min"] == pytest.approx(row["predicted_ms"] * steps / 60e3)
    assert row["low_min"] < row["predicted_min"] < row["high_min"]
    assert row["assumed"] == ["precision fp32"]
    assert answer["not_predicted"] == [{"line": 3, "reason": "hardware not known: abacus"}]


def test_of_several_plans_the_one_that_ends_first_counts(tmp_path):
    row = ROWS["mlperf_v1.1_nvidiadgxa100_resnet_64"]
    (found,) = compare_steps(written(tmp_path / "one.csv", [row]), "imagenet").every
    ends = {}
    for batch in batches(record(row["record_id"])):
        stated = written(tmp_path / "stated.csv", [row | {"global_batch": str(batch)}])
        (each,) = compare_steps(stated, "imagenet").every
        ends[batch] = each.predicted * each.step.steps
    assert found.predicted * found.step.steps == pytest.approx(min(ends.values()))


@pytest.mark.parametrize("name", FILES)
def test_scenario_files_are_what_their_rows_say(name):
    """`dpsim validate reference imagenet FILE.csv --write-scenarios FOLDER` writes them anew."""
    (row,) = [row for row in packaged_rows(TABLE) if row.text("record_id") == name]
    output = dict(read(row).scenario)
    if not output["workload"]["model"].startswith("bert"):
        images = constants_file(SETTINGS)["assumed"]["samples"]["value"]
        output["workload"] = {**output["workload"], "dataset": {"samples": images}}
    file = FOLDER / f"{FILES[name]}.yaml"
    assert load_scenario(file) == scenario_of_row({**output, "name": FILES[name]})
