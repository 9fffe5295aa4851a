"""Tables of step times through the engine: what holds for every kind that is read."""

import json
from pathlib import Path

import pytest
from step_rows import DATA, TABLES, lines, written

from dpsim.base.errors import DpsimError
from validate.published import compare_steps
from validate.published.step_reference import TABLES as KINDS
from validate.published.step_tables.single_gpu import group_of
from validate.published.tables.csv_file import Row
from validate.published.tables.machines import cards_in, cluster_of, gpu_in
from validate.published.tables.scenario_files import file_name
from validate.published.tables.training import first_known, known_words, software_in

REGIMES = [(kind, "specification") for kind in KINDS]
CALIBRATED = [kind for kind, table in KINDS.items() if table.known is not None or table.plans]
# A few rows of each table: of one GPU, of several, of several nodes, and one that is not predicted.
FEW = {
    "single-gpu": lambda row: (
        (row["model"], row["framework"]) == ("ResNet-50", "TensorFlow 1.1-era tf_cnn_benchmarks")
        or row["case_id"].startswith("dle_ptbertlarge")
        or row["mode"] == "eval"
    ),
    "steps": lambda row: (
        row["series"] in ("lambda-v0/rtx-3090/ssd300/fp16", "torchao/h100-sxm/bf16")
        or row["model"] == "t5-v1.1-large"
    ),
    "mlperf": lambda row: (
        (row["round"], row["submitter"]) == ("v1.0", "NVIDIA")
        and row["benchmark"] in ("resnet", "bert", "maskrcnn")
    ),
    "vtrain": lambda row: (row["hidden_size"], row["layers"], row["gpus"]) == ("2048", "12", "4"),
    "scaling": lambda row: row["case_id"].startswith(
        ("oci_", "alibaba_", "dle_txlbase_dgx1", "byteps")
    ),
    "overlap": lambda row: row["case_id"].startswith(
        ("hkbu_v100_dn161_ib", "tf_gce_k80_resnet50", "bluefog")
    ),
    "adaptdl": lambda row: (
        (row["cluster"], row["model"]) == ("quadro_rtx6000", "cifar10")
        or (row["cluster"], row["placement"], row["local_bsz"]) == ("aws_g4dn_t4", "211", "81")
    ),
    "imagenet": lambda row: (
        row["record_id"]
        in (
            "goyal2017",
            "smith2017",
            "mlperf_v1.1_nvidiadgxa100_resnet_8",
            "mlperf_v1.1_nvidiadgxa100_bert_64",
        )
    ),
    "llm": lambda row: row["case_id"].startswith(
        ("mosaic-lf-readme-1b-h100_80gb-s2048", "titan-h100-8b-bf16", "titan-h100-70b")
    ),
}
# What an overlap policy is predicted from: its case's row on one GPU.
KNOWN = {"overlap": lambda row: row["gpus"] == "1.0"}
MEASURED = ("step_time_ms", "step_time_s", "iteration_time_ms", "time_min", "exposed_sync_ms")


def few(kind, path):
    return written(path, lines(kind, FEW[kind]))


def slower(row, times):
    """The row as if all that was measured had taken so many times as long."""
    changed = {name: str(times * float(row[name])) for name in MEASURED if row.get(name)}
    if row.get("throughput"):
        changed["throughput"] = str(float(row["throughput"]) / times)
    return row | changed


def by_id(found):
    shown = [*found["rows"], *found["rows_apart"], *found["rows_fitted_on"]]
    return {row["row_id"]: row for row in shown}


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_answered_once_and_rows_apart_say_why(kind, tmp_path):
    path = few(kind, tmp_path / "few.csv")
    found = compare_steps(path, kind).to_json()
    rows = by_id(found)
    table = lines(kind, FEW[kind])
    assert set(rows) == {row.get("row_id") or str(n) for n, row in enumerate(table, 1)}
    assert len(rows) == len(table)
    assert all(row["reason"] for row in found["rows_apart"])
    assert {row["status"] for row in rows.values()} <= {"counted", "apart", "not predicted"}
    without = [row for row in found["rows_apart"] if row["predicted_ms"] is None]
    assert len(without) == len(found["not_predicted"])
    for row in found["rows"]:
        assert 0 < row["low_ms"] <= row["high_ms"]
        assert isinstance(row["extrapolated"], list)
        assert row["ape"] == pytest.approx(abs(row["predicted_ms"] / row["measured_ms"] - 1))


@pytest.mark.parametrize("kind", KINDS)
def test_no_prediction_reads_its_own_measurement(kind, tmp_path):
    is_known = KNOWN.get(kind, lambda row: False)
    rows = [row if is_known(row) else slower(row, 10) for row in lines(kind, FEW[kind])]
    before = compare_steps(few(kind, tmp_path / "few.csv"), kind).every
    after = compare_steps(written(tmp_path / "slow.csv", rows), kind).every
    assert [row.predicted for row in after] == [row.predicted for row in before]
    assert [row.measured for row in after] == pytest.approx([10 * row.measured for row in before])


@pytest.mark.parametrize("kind", [kind for kind in CALIBRATED if not KINDS[kind].plans])
def test_a_calibrated_prediction_reads_only_the_known_row(kind, tmp_path):
    rows = lines(kind, FEW[kind])
    path = few(kind, tmp_path / "few.csv")
    before = by_id(compare_steps(path, kind, regime="calibrated").to_json())
    known = {row["known_row"] for row in before.values() if row.get("known_row")}
    assert known
    changed = [row if row["row_id"] in known else slower(row, 10) for row in rows]
    slow = written(tmp_path / "slow.csv", changed)
    after = by_id(compare_steps(slow, kind, regime="calibrated").to_json())
    for row_id, row in before.items():
        assert after[row_id]["predicted_ms"] == row["predicted_ms"]
        assert after[row_id].get("naive_ms") == row.get("naive_ms")
    # Known rows do not count; the others stand beside the same time for each sample.
    predicted = [row for row in before.values() if row["predicted_ms"] is not None]
    assert all(("naive_ms" in row) == (row["status"] != "fitted on") for row in predicted)


@pytest.mark.parametrize(
    ("kind", "regime"), REGIMES + [(kind, "calibrated") for kind in CALIBRATED]
)
def test_each_scenario_that_is_written_gives_the_same_step(kind, regime, tmp_path, dpsim):
    folder = tmp_path / "scenarios"
    path = few(kind, tmp_path / "few.csv")
    requested = ("--regime", regime, "--write-scenarios", folder, "--json")
    _, out, _ = dpsim("validate", "reference", kind, path, *requested)
    rows = by_id(json.loads(out))
    predicted = {key: row for key, row in rows.items() if row["predicted_ms"] is not None}
    assert {file.stem for file in folder.glob("*.yaml")} == {*map(file_name, predicted)}
    for row_id, row in predicted.items():
        _, out, _ = dpsim("run", folder / f"{file_name(row_id)}.yaml", "--json")
        answer = json.loads(out)
        assert answer["step_time_s"]["mean"] * 1e3 == pytest.approx(row["predicted_ms"], rel=1e-9)
        assert answer["interval_s"]["low"] * 1e3 == pytest.approx(row["low_ms"], rel=1e-9)


def test_memory_of_a_row_that_stands_apart_counts_in_no_regime(tmp_path):
    """Also where such a row is the known one of its series."""
    row = lines("steps", FEW["steps"])[0] | {"quality": "caution", "peak_memory_gb": "1"}
    path = written(tmp_path / "apart.csv", [row])
    for regime in ("specification", "calibrated"):
        assert compare_steps(path, "steps", regime=regime).to_json()["memory"]["n"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_column_is_named(kind, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(DpsimError, match="must have the column"):
        compare_steps(path, kind)


@pytest.mark.parametrize(
    ("row_id", "name"),
    [
        ("t2-0001", "t2-0001"),
        ("../../etc/passwd", "-..-etc-passwd"),
        (".", "row"),
        ("a b/c", "a-b-c"),
    ],
)
def test_a_row_cannot_be_written_outside_its_folder(row_id, name):
    assert file_name(row_id) == name


def test_two_rows_of_one_name_are_refused_where_scenarios_are_written(tmp_path):
    row = lines("steps", lambda row: row["series"] == "torchao/h100-sxm/bf16")[0]
    path = written(tmp_path / "two.csv", [row, row | {"row_id": row["row_id"].upper()}])
    assert len(compare_steps(path, "steps").every) == 2
    with pytest.raises(DpsimError, match="row_id of line 3 must be another than that of line 2"):
        compare_steps(path, "steps", write_scenarios=tmp_path / "out")


def test_a_regime_that_a_kind_lacks_is_refused(tmp_path):
    path = few("single-gpu", tmp_path / "few.csv")
    with pytest.raises(DpsimError, match="--regime must be left out for single-gpu"):
        compare_steps(path, "single-gpu", regime="calibrated")


# The committed errors of whole tables, rounded up: they go down as the engine gets better.
@pytest.mark.wide
@pytest.mark.parametrize(
    ("kind", "regime", "n", "median", "mean"),
    [
        ("single-gpu", "specification", 572, 0.206, 0.294),
        ("steps", "specification", 688, 0.123, 0.183),
        pytest.param("steps", "calibrated", 478, 0.022, 0.057, marks=pytest.mark.long),
        ("mlperf", "specification", 884, 0.076, 0.101),
        pytest.param("mlperf", "calibrated", 356, 0.039, 0.089, marks=pytest.mark.long),
        ("vtrain", "specification", 118, 0.121, 0.16),
        ("scaling", "specification", 633, 0.135, 0.206),
        ("overlap", "specification", 102, 0.105, 0.14),
        pytest.param("adaptdl", "specification", 9099, 0.165, 0.224, marks=pytest.mark.long),
        ("imagenet", "specification", 44, 0.137, 0.259),
        ("llm", "specification", 645, 0.044, 0.0625),
        pytest.param("llm", "calibrated", 106, 0.016, 0.034, marks=pytest.mark.long),
    ],
)
def test_whole_tables_are_no_further_off_than_committed(kind, regime, n, median, mean):
    overall = compare_steps(DATA / TABLES[kind], kind, regime=regime).overall
    assert overall["n"] >= n
    assert overall["median_ape"] < median
    assert overall["mean_ape"] < mean


def test_what_the_catalogue_lacks_and_what_is_no_training_is_named(tmp_path):
    row = lines("single-gpu", lambda row: row["model"] == "ResNet-50")[0]
    strange = [
        {**row, "gpu": "Abacus"},
        {**row, "model": "ResNet-200"},
        {**row, "mode": "sleep"},
        {**row, "batch": ""},
        {**row, "batch": "96"},
    ]
    result = compare_steps(written(tmp_path / "new.csv", strange), "single-gpu")
    assert result.not_predicted == [
        (2, "no such GPU in the catalogue: Abacus"),
        (3, "no such model in the catalogue: ResNet-200"),
        (4, "no training: sleep"),
        (5, "not stated: batch"),
    ]
    assert [row.line for row in result.counted] == [6]


def test_a_row_that_times_one_of_many_passes_is_a_step_of_all_of_them(tmp_path):
    row = lines("single-gpu", lambda row: row["model"] == "BERT-large pretrain (LAMB)")[0]
    notes = [
        f"accumulation {n} micro batches per optimizer step" if n > 1 else "" for n in (1, 2, 4)
    ]
    rows = [{**row, "case_id": "new", "notes": note} for note in notes]
    result = compare_steps(written(tmp_path / "passes.csv", rows), "single-gpu")
    one, two, four = (row.predicted for row in result.counted)
    assert four - two == pytest.approx(2 * (two - one), rel=1e-6)
    assert [row.measured / result.counted[0].measured for row in result.counted] == [1, 2, 4]


def test_constants_are_fitted_to_the_given_number_of_known_rows(tmp_path):
    """Steps of one model on 1 to 16 GPUs of a cluster, which are made from known constants."""
    rows = [
        {**row, "step_time_ms": str(100 + float(row["local_bsz"]))}
        for row in lines("adaptdl", lambda row: row["case_id"] == "adaptdl_rtx2080ti_bert")[:12]
    ]
    table = written(tmp_path / "t.csv", rows)
    found = compare_steps(table, "adaptdl", regime="calibrated", known=3)
    assert (len(found.fitted), len(found.counted)) == (3, len(rows) - 3)
    assert {row.constants.partition(", step")[2] for row in found.counted} == {
        " constants fitted to 3 known rows"
    }
    assert all(row.naive and row.known for row in found.counted)


def test_rows_that_constants_saw_say_so(tmp_path):
    row = lines("single-gpu", lambda row: row["model"] == "ResNet-50")[0]
    rows = [row, {**row, "batch": "48"}]
    result = compare_steps(written(tmp_path / "seen.csv", rows), "single-gpu")
    assert [row.constants for row in result.counted] == [
        f"shipped, without {group_of(Row(Path('t.csv'), 2, row))}",
        "shipped",
    ]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("mlperf v1.0 | MXNet NVIDIA Release 21.05", ("mlperf", "channels_last", "sharded")),
        ("mlperf v0.6 | MXNet NVIDIA Release 19.05", ("mlperf", "channels_last", "fused")),
        ("NVIDIA DLE | pytorch | fp16", ("tuned", "channels_last", "fused")),
        ("Lambda | pytorch | fp16 | NVIDIA DLE", ("typical", "channels_first", "fused")),
        ("TensorFlow 1.1-era tf_cnn_benchmarks", ("reference", "channels_first", "loop")),
        ("PyTorch AdaptDL", ("reference", "channels_first", "loop")),
    ],
)
def test_software_follows_from_what_a_row_states(message, words):
    found = software_in(message)
    assert (found["software"], found["memory_format"], found["optimizer_kernels"]) == words


def test_words_that_scenarios_do_not_know_stay_with_the_row():
    assert known_words({"execution": "graph", "flavour": "sweet"}) == {"execution": "graph"}
    assert known_words({"execution": "by hand"}) == {}
    assert first_known("execution", ["by hand", "graph"]) == "graph"
    assert first_known("flavour", ["sweet", "sour"]) == "sweet"


@pytest.mark.parametrize(
    ("gpu", "placement", "cluster"),
    [
        ("a100-sxm-80gb", (8, 8), ("dgx-a100", 2, 8)),
        ("v100-sxm3-32gb", (16,), ("dgx2", 1, 16)),
        ("h100-sxm-96gb", (4,), ("dgx-h100", 1, 4)),
        ("t4", (4, 4), ("aws-g4dn", 2, 4)),
        # Racks of 72, filled evenly: 18 boards of 4 are one, 128 of 4 are 8 of 64.
        ("gb200", (4,) * 18, ("gb200-nvl72", 1, 72)),
        ("gb200", (4,) * 128, ("gb200-nvl72", 8, 64)),
    ],
)
def test_gpus_stand_in_the_machines_that_are_made_for_them(gpu, placement, cluster):
    found = cluster_of(gpu_in(gpu), placement)
    assert (found["node"], found["nodes"], found["gpus_per_node"]) == cluster


def test_nodes_that_are_filled_unevenly_are_groups():
    found = cluster_of(gpu_in("t4"), (4, 2, 2))
    assert [(part["nodes"], part["gpus_per_node"]) for part in found["groups"]] == [(1, 4), (2, 2)]


@pytest.mark.parametrize(
    ("words", "nic", "count"),
    [
        ("1x IB EDR 100Gb per node (mlx5_0)", "ib-edr", 1),
        ("10GbE", "ethernet-10g", 1),
        ("16x100Gb RoCE per node", "roce-100g", 16),
        ("EFA (p5, 3200 Gbit/s)", "efa-400g", 8),
    ],
)
def test_words_on_networks_are_cards_of_the_catalogue(words, nic, count):
    gpu = gpu_in("h100" if "EFA" in words else "v100")
    assert cards_in(words, gpu, 8) == {"nic": nic, "nics_per_node": count}


def test_a_rate_that_no_card_of_the_catalogue_has_is_a_card_of_its_own():
    found = cards_in("20Gb TCP", gpu_in("v100"), 8)
    assert found["nic"]["rate"] == 20e9 / 8
    assert cards_in("in one machine (not stated)", gpu_in("v100"), 8) == {}


def test_a_cell_that_is_no_number_is_named(tmp_path):
    path = written(tmp_path / "bad.csv", [{**lines("vtrain")[0], "layers": "many"}])
    with pytest.raises(DpsimError, match=r"bad.csv:2: layers: must be a number, but got 'many'"):
        compare_steps(path, "vtrain")


def test_tensor_parallel_rows_are_listed(tmp_path):
    row = lines("vtrain")[0]
    path = written(tmp_path / "new.csv", [{**row, "tensor_parallelism": "2"}, row])
    result = compare_steps(path, "vtrain")
    assert result.not_predicted == [(2, "tensor or pipeline parallelism")]
    assert len(result.counted) == 1


def test_activations_without_room_are_computed_again(tmp_path):
    """Twice the batch takes twice the time while all fits, and a third of the layers more then."""
    row = lines("vtrain", lambda row: (row["hidden_size"], row["layers"]) == ("2048", "24"))[0]
    two = {"gpus": "2", "data_parallelism": "2", "sequence_length": "2048"}
    rows = [row | two | {"micro_batch": str(n), "global_batch": str(2 * n)} for n in (2, 4, 8)]
    result = compare_steps(written(tmp_path / "a.csv", rows), "vtrain")
    again = [row.step.scenario["workload"]["checkpoint"] for row in result.counted]
    assert again == ["none", "none", "full"]


@pytest.mark.parametrize(
    ("columns", "placement"),
    [
        ({"placement": "211", "nodes": "3", "gpus": "4"}, [2, 1]),
        ({"placement": "112", "nodes": "3", "gpus": "4"}, [2, 1]),
        ({"placement": "even", "nodes": "3", "gpus": "7"}, [3, 2]),
    ],
)
def test_placements_of_adaptdl_are_groups_of_nodes(columns, placement, tmp_path):
    row = lines("adaptdl", lambda row: row["cluster"] == "aws_g4dn_t4")[0] | columns
    (found,) = compare_steps(written(tmp_path / "a.csv", [row]), "adaptdl").every
    groups = found.step.scenario["cluster"]["groups"]
    assert [group["gpus_per_node"] for group in groups] == placement
    assert sum(group["nodes"] * group["gpus_per_node"] for group in groups) == found.step.gpus


def growing(growth):
    """One model on one GPU and on two, at two batches; 50 ms of network, and more by the batch."""
    own = {"1": 0.0, "2": 50.0}
    steps = {
        (gpus, batch): 100.0 * batch + own[gpus] + (growth * batch if gpus == "2" else 0.0)
        for gpus in own
        for batch in (1, 4)
    }
    row = lines("adaptdl", lambda row: row["cluster"] == "rtx2080ti")[0] | {"nodes": "1"}
    return [
        row | {"placement": gpus, "gpus": gpus, "local_bsz": str(batch), "step_time_ms": str(step)}
        for (gpus, batch), step in steps.items()
    ]


@pytest.mark.parametrize(("growth", "apart"), [(0.0, False), (100.0, False), (200.0, True)])
def test_series_that_no_network_explains_stand_apart_and_say_so(growth, apart, tmp_path):
    result = compare_steps(written(tmp_path / "series.csv", growing(growth)), "adaptdl")
    reasons = [row.to_json()["reason"] for row in result.apart]
    assert len(reasons) == (2 if apart else 0)
    assert all("no network does that" in reason for reason in reasons)


def test_rows_of_a_cluster_that_is_described_as_weak_stand_apart_for_that(tmp_path):
    rows = lines("adaptdl", lambda row: row["cluster"].startswith("azure"))[:3]
    result = compare_steps(written(tmp_path / "weak.csv", rows), "adaptdl")
    assert not result.counted
    assert all(row.step.reason.startswith("described as WEAK") for row in result.apart)
