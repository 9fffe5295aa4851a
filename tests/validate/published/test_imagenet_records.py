"""Rows of the ImageNet records as scenarios, and how far off their predicted times to train are."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from dpsim import cli, load_scenario
from dpsim.base.errors import DpsimError
from tools.refits.imagenet_refit import text
from tools.refits.imagenet_scenarios import FILES, FOLDER, content
from validate.published import compare_steps
from validate.published.imagenet.comparison import (
    FITTED,
    REQUIRED,
    TABLE,
    effects_without,
    public_effects,
    shipped,
)
from validate.published.imagenet.model import EFFECTS, Effects, anchors, fit
from validate.published.imagenet.records import Plan, read_record
from validate.published.imagenet.steps import LOG_FACTORS, Curve, curve, interpolated
from validate.published.tables.columns import packaged_table, read_columns

DATA = Path("validate/published/data")
with (DATA / TABLE).open(newline="", encoding="utf-8") as stream:
    ROWS = {row["record_id"]: row for row in csv.DictReader(stream)}


def record(tmp_path, name="goyal2017", **changes):
    path = tmp_path / "one.csv"
    row = {**ROWS[name], **changes}
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(row))
        writer.writeheader()
        writer.writerow(row)
    return read_record(read_columns(path, REQUIRED), 0)


def test_a_record_that_says_all_assumes_next_to_nothing(tmp_path):
    found = record(tmp_path)
    assert found.plans == (Plan(32, 1, 256, 90 * 1_281_167),)
    assert found.plans[0].steps == pytest.approx(90 * 1_281_167 / 8192)
    assert found.assumed == ("precision fp32",)
    cluster = found.scenario(found.plans[0]).cluster
    assert (
        cluster.nodes,
        cluster.ranks,
        cluster.network.nic.name,
        cluster.network.nics_per_node,
    ) == (32, 256, "ethernet-50g", 1)
    assert cluster.accelerator.name == "p100-sxm2"


def test_what_is_not_said_is_assumed_and_listed(tmp_path):
    found = record(tmp_path, epochs="", global_batch="", interconnect="")
    assert set(found.assumed) == {
        "precision fp32", "90 epochs", "global batch of 16,384", "8 devices a node", "network cards of dgx1-p100",
    }  # fmt: skip
    assert found.plans[0].global_batch == 16384


def test_words_of_hardware_and_network(tmp_path):
    abci = record(tmp_path, "yamazaki2019")
    assert dict(abci.cluster)["nodes"] == 512
    assert abci.cluster["network"] == {
        "fabric": "single-switch",
        "nic": "ib-edr",
        "nics_per_node": 2,
    }
    cores = record(tmp_path, "smith2017")
    assert cores.plans[0].devices == 128
    assert cores.cluster["network"] == {"fabric": "torus"}
    assert record(tmp_path, "tpuv2_single").plans[0].devices == 4
    assert record(tmp_path, global_batch="34K-68K").plans[0].global_batch == pytest.approx(
        (34 * 68) ** 0.5 * 1024, rel=0.01
    )


def test_mlperf_takes_samples_from_the_reference_points(tmp_path):
    found = record(tmp_path, "mlperf_v1.1_nvidiadgxa100_resnet_64")
    assert found.suite == "mlperf"
    assert [plan.global_batch for plan in found.plans] == [1664, 3264, 4096, 8192, 13056]
    assert all(30 < plan.samples / 1_281_167 < 50 for plan in found.plans)
    assert "samples and batch of MLPerf's reference points" in found.assumed
    stated = record(tmp_path, "mlperf_v1.1_nvidiadgxa100_resnet_64", global_batch="6528")
    assert [plan.global_batch for plan in stated.plans] == [6528]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hardware": "Cerebras"}, "hardware not known: Cerebras"),
        ({"model": "Mask R-CNN (MLPerf)"}, "model not known: Mask R-CNN"),
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
def test_what_cannot_be_read_is_said(tmp_path, changes, message):
    with pytest.raises(DpsimError, match=message.replace("(", r"\(")):
        record(tmp_path, **changes)


def flat(found, log_seconds):
    return Curve(found, found.plans[0], np.array(log_seconds))


def test_curves_are_interpolated_and_go_on_with_their_last_slopes():
    values = 2 * LOG_FACTORS[None, :] + 1
    for log_factor in (-9.0, -0.3, 0.0, 1.0, 9.0):
        assert interpolated(values, np.array([log_factor])) == pytest.approx([2 * log_factor + 1])


def test_computing_twice_as_long_is_at_most_twice_as_long_a_training(tmp_path):
    one = curve(record(tmp_path, accelerators="16", global_batch="512"))
    steps = np.diff(one.log_seconds)
    assert np.all(steps > 0)
    assert np.all(steps <= np.log(2) * (1 + 1e-9))


def test_effects_are_found_in_records_made_with_them(tmp_path):
    names = ("goyal2017", "akiba2017", "jia2018", "mikami2018v1", "ying2018", "tpuv3_512")
    records = [record(tmp_path, name) for name in names]
    curves = [flat(one, LOG_FACTORS + 5) for one in records]
    slow = np.array([3.0 if one.family == "tpu-v3" else 1.0 for one in records])
    found = fit(curves, np.exp(5) * slow)
    ratio = found.seconds(curves[4]) / found.seconds(curves[0])
    assert ratio == pytest.approx(3, rel=0.15)


def test_members_that_were_never_seen_have_no_effect(tmp_path):
    nothing = {effect: {} for effect in ("family", "chip", "model", "suite", "own", "slope")}
    one = flat(record(tmp_path), LOG_FACTORS + 5)
    assert Effects(nothing, nothing).seconds(one) == pytest.approx(np.exp(5))
    assert Effects(nothing, nothing).factor(one) == 1


def test_anchors_are_the_fastest_rows_of_each_chip():
    curves, seconds = anchors()
    rates = {
        (c.record.chip, c.record.model): c.plan.per_device / s
        for c, s in zip(curves, seconds, strict=True)
    }
    assert rates["v100-sxm", "resnet50"] == pytest.approx(1472.72)
    assert rates["p100-sxm", "resnet50"] == pytest.approx(219)
    assert all(c.record.suite == "table" for c in curves)


# Records of new names are predicted by the shipped effects alone.
def test_a_record_that_no_fit_saw_is_predicted_by_what_is_shipped(tmp_path, monkeypatch, capsys):
    path = tmp_path / "blind.csv"
    rows = [
        {**ROWS["goyal2017"], "who": "Someone else"},
        {**ROWS["goyal2017"], "hardware": "abacus"},
    ]
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    monkeypatch.setattr(
        "sys.argv", ["dpsim", "validate", "reference", "imagenet", str(path), "--json"]
    )
    with pytest.raises(SystemExit) as ended:
        cli.main()
    answer = json.loads(capsys.readouterr().out)
    assert not ended.value.code
    (row,) = answer["rows"]
    assert row["constants"] == "shipped"
    assert row["measured_min"] == 60
    assert row["ape"] == pytest.approx(abs(row["predicted_min"] / 60 - 1))
    assert row["assumed"] == ["precision fp32"]
    assert answer["not_predicted"] == [{"line": 3, "reason": "hardware not known: abacus"}]


@pytest.mark.parametrize("name", FILES)
def test_scenario_files_are_what_their_rows_say(name):
    rows = packaged_table(TABLE, REQUIRED)
    found = read_record(rows, rows.text("record_id").tolist().index(name))
    written = load_scenario(FOLDER / f"{FILES[name]}.yaml")
    batch = written.cluster.ranks * written.workload.samples_per_gpu
    (plan,) = [plan for plan in found.plans if plan.global_batch == batch]
    said = found.scenario(plan)
    assert written.cluster == said.cluster
    assert written.strategy == said.strategy
    assert written.workload.model_copy(update={"dataset": None}) == said.workload


# Everything below simulates all records and fits them many times.
@pytest.fixture(scope="module")
def public():
    return compare_steps(DATA / TABLE, "imagenet")


@pytest.mark.wide
def test_every_record_is_predicted_without_itself_within_the_committed_error(public):
    assert len(public.counted) == len(ROWS) == 44
    assert set(public.constants) == {"shipped, without this record"}
    assert public.overall["median_ape"] < 0.155  # the project's target is 0.20
    assert public.groups["suite mlperf"]["median_ape"] < 0.085
    assert public.groups["suite paper"]["median_ape"] < 0.41


@pytest.mark.wide
def test_shipped_effects_are_refitted_ones():
    refitted, kept = public_effects(), shipped()
    assert (
        text(refitted).splitlines()[:2]
        == (Path("validate/published") / FITTED).read_text().splitlines()[:2]
    )
    for effect in EFFECTS:
        assert kept.values[effect] == pytest.approx(refitted.values[effect], rel=0.01)


@pytest.mark.wide
def test_scenario_files_have_the_calibration_that_is_fitted_without_them():
    rows = packaged_table(TABLE, REQUIRED).text("record_id").tolist()
    for name in ("akiba2017", "mlperf_v1.1_nvidiadgxa100_resnet_64"):
        one, effects = effects_without(rows.index(name))
        expected = content(FILES[name], one, effects)["calibration"]["step_time"]
        assert f"step_time: {expected}" in (FOLDER / f"{FILES[name]}.yaml").read_text()
