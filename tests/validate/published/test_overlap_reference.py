"""Overlap policies, parameter servers and gossip against scaling.csv: what is read, and ranks."""

import json
import re
from pathlib import Path

import pytest
from step_rows import lines, written

from validate.published import compare_steps
from validate.published.step_tables.overlap import Order, orders

ROOT = Path(__file__).parents[3]
SCALING = ROOT / "validate" / "published" / "data" / "scaling.csv"


@pytest.fixture(scope="module")
def whole():
    return compare_steps(SCALING, "overlap")


@pytest.mark.wide
def test_policies_rank_as_measured_in_the_committed_number_of_settings(whole):
    found = orders(whole.every)
    clear = [right for order in found for right in order.pairs(0.02)]
    assert len(found) == 22
    assert sum(order.right for order in found) >= 11
    assert sum(clear) >= 23
    assert len(clear) == 36


@pytest.mark.wide
@pytest.mark.parametrize(
    ("heading", "group"),
    [
        ("WFBP", "WFBP"),
        ("SyncEASGD (one merged all-reduce)", "SyncEASGD"),
        ("MG-WFBP", "MG-WFBP"),
        ("all three", "overlap policies"),
        ("parameter server on the CPU", "parameter-server"),
        ("gossip", "gossip"),
    ],
)
def test_the_page_of_accuracy_says_what_is_measured(whole, heading, group):
    (cells,) = re.findall(
        rf"^\| {re.escape(heading)} \|(.*)\|$",
        (ROOT / "docs" / "accuracy.md").read_text(),
        re.MULTILINE,
    )
    errors = whole.groups[group]
    message = [f"{100 * errors[name]:.1f} %" for name in ("median_ape", "mean_ape", "worst_ape")]
    assert [cell.strip() for cell in cells.split("|")] == [str(errors["n"]), *message]


def read(tmp_path, *rows):
    return compare_steps(written(tmp_path / "rows.csv", rows), "overlap")


def test_a_policy_is_predicted_with_the_computing_that_its_row_states(tmp_path):
    rows = lines("overlap", lambda row: row["case_id"].startswith("hkbu_v100_dn161_ib_fp32"))
    result = read(tmp_path, *rows)
    answer = json.loads(json.dumps(result.to_json(), allow_nan=False))
    (order,) = answer["orders"]
    assert set(order["measured_ms"]) == {"WFBP", "SyncEASGD", "MG-WFBP"}
    assert list(order) == ["setting", "measured_ms", "predicted_ms", "right"]
    computing = float(re.search(r"computation part ([\d.]+) ms", rows[0]["notes"])[1])
    # A merged all-reduce begins when all is computed: its step is computing and the network.
    assert order["predicted_ms"]["SyncEASGD"] > computing
    assert order["predicted_ms"]["MG-WFBP"] >= 0.999 * computing
    scenario = result.counted[0].step.scenario
    assert scenario["cluster"]["nodes"] == 4  # of four GPUs: the row states none
    assert scenario["calibration"]["compute_scale"] > 0


def test_gradients_of_half_precision_travel_so(tmp_path):
    rows = lines("overlap", lambda row: row["case_id"].startswith("hkbu_v100_dn161_ib_fp16"))
    result = read(tmp_path, *rows)
    assert {row.step.scenario["strategy"]["compression"]["kind"] for row in result.every} == {
        "cast"
    }


def test_a_parameter_server_is_predicted_from_its_case_on_one_gpu(tmp_path):
    rows = lines("overlap", lambda row: row["case_id"] == "tf_gce_k80_resnet50")
    result = read(tmp_path, *rows)
    assert {row.step.scenario["strategy"]["aggregation"]["kind"] for row in result.every} == {
        "parameter-server"
    }
    assert result.not_predicted == [
        (2, "computing not stated, and no row of the case on fewer GPUs")
    ]
    assert max(row.ape for row in result.every) < 0.1


def test_a_tie_is_no_pair():
    order = Order((), {"a": 1.0, "b": 1.01, "c": 2.0}, {"a": 1.1, "b": 1.0, "c": 3.0})
    assert not order.right
    assert sorted(order.pairs()) == [False, True, True]
    assert order.pairs(0.02) == [True, True]


def gossip(**changed):
    (found,) = lines("overlap", lambda row: row["sync"] == "gossip")
    return {**found, **changed}


@pytest.mark.parametrize("derived", [False, True])
def test_one_row_of_gossip_is_predicted_and_its_step_may_follow_from_throughput(derived, tmp_path):
    answer = read(tmp_path, gossip(**({"step_time_ms": ""} if derived else {}))).to_json()
    (scored,) = answer["rows"]
    assert scored["measured_ms"] == pytest.approx(237.55, rel=1e-3)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"step_time_ms": "", "throughput": ""}, "not stated: throughput"),
        ({"gpus": ""}, "not stated: gpus"),
        ({"gpu": "abacus"}, "no such GPU in the catalogue: abacus"),
        ({"notes": "parameter server on gpu"}, "servers on a GPU"),
        ({"system": "PyTorch+Horovod asc"}, "no such overlap policy: ASC-WFBP"),
    ],
)
def test_a_row_that_says_too_little_or_what_dpsim_lacks_is_listed(changed, why, tmp_path):
    answer = read(tmp_path, gossip(sync="BSP") | changed).to_json()
    assert answer["overall"] is None
    assert why in answer["not_predicted"][0]["reason"]
