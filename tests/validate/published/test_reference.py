"""Predictions beside tables: what counts, what is left out, and the notes on it."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from validate.published import compare
from validate.published.nccl.table import read_table

DATA = Path(__file__).parents[3] / "validate" / "published" / "data"
COLUMNS = [
    *(
        "case_id",
        "machine",
        "nodes",
        "gpus_per_node",
        "n_ranks",
        "gpu",
        "intra_link",
        "inter_link",
        "nccl_version",
    ),
    *("algo_proto", "op", "dtype", "bytes", "time_us", "quality", "notes"),
]
H200 = {
    "case_id": "h200_1n",
    "machine": "1 node 8x H200",
    "nodes": 1,
    "gpus_per_node": 8,
    "n_ranks": 8,
    "gpu": "H200",
    "intra_link": "NVLink4+NVSwitch3",
}
UNKNOWN = {
    "case_id": "odd_2n",
    "machine": "2 odd nodes",
    "nodes": 2,
    "gpus_per_node": 4,
    "n_ranks": 8,
    "gpu": "Frobnicator 9",
    "intra_link": "NVLink9",
    "inter_link": "pigeons",
}
SIZES = [2**power for power in range(10, 27, 2)]


def table(path, *machines, quality="ok", time=lambda size: 20 + size / 2e5):
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, restval="")
        writer.writeheader()
        for machine in machines:
            for size in SIZES:
                row = {"op": "out-of-place", "dtype": "float32", "quality": quality, **machine}
                writer.writerow({**row, "bytes": size, "time_us": f"{time(size):.2f}"})
    return path


def part(path, name, column, value):
    """The rows of a shipped table that have ``value`` in ``column``, as a table of their own."""
    with (DATA / name).open() as source:
        lines = [*csv.DictReader(source)]
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(lines[0]))
        writer.writeheader()
        writer.writerows(line for line in lines if line[column] == value)
    return path


def test_every_row_of_an_unseen_machine_is_predicted_by_the_shipped_constants(tmp_path):
    answer = compare(table(tmp_path / "t.csv", H200), "nccl-tests").to_json()
    assert [row["bytes"] for row in answer["rows"]] == SIZES
    assert {row["constants"] for row in answer["rows"]} == {"shipped"}
    assert {row["case_id"] for row in answer["rows"]} == {"h200_1n"}
    assert answer["constants"] == {"shipped": len(SIZES)}
    assert answer["not_understood"] == []


def test_a_column_may_say_which_collective_was_run(tmp_path):
    path = table(tmp_path / "t.csv", {**UNKNOWN, "inter_link": "EFA v2 3200Gbps per node"})
    with path.open() as stream:
        rows = [*csv.DictReader(stream)]
    for collective in ("all_reduce", "alltoall", "sendrecv"):
        with path.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, [*COLUMNS, "collective"])
            writer.writeheader()
            writer.writerows({**row, "collective": collective} for row in rows)
        answer = compare(path, "nccl-tests").to_json()
        assert {row["collective"] for row in answer["rows"]} == {collective}
        group = "EFA/TCPX" if collective == "all_reduce" else "other collectives"
        assert f"multi-node {group}" in answer["groups"]


def test_errors_are_those_of_the_rows(tmp_path):
    answer = compare(table(tmp_path / "t.csv", H200), "nccl-tests").to_json()
    errors = [abs(row["predicted_us"] / row["measured_us"] - 1) for row in answer["rows"]]
    large = [
        error for row, error in zip(answer["rows"], errors, strict=True) if row["bytes"] >= 2**20
    ]
    overall = answer["overall"]
    assert overall["n"] == len(SIZES)
    assert overall["mean_ape"] == pytest.approx(np.mean(errors)) == overall["mean_over_machines"]
    assert overall["median_ape"] == pytest.approx(np.median(errors))
    assert overall["p95_ape"] == pytest.approx(np.percentile(errors, 95))
    assert overall["worst_ape"] == pytest.approx(max(errors))
    assert answer["groups"]["from 1 MiB"]["mean_ape"] == pytest.approx(np.mean(large))
    assert {
        "single-node",
        "single-node NVLink",
        "single-node NVLink, from 1 MiB",
        "case h200_1n",
    } <= set(answer["groups"])


def test_the_mean_over_machines_weighs_machines_alike(tmp_path):
    path = table(
        tmp_path / "t.csv",
        H200,
        {**H200, "op": "in-place"},
        {**H200, "machine": "another", "case_id": "b", "gpu": "A100"},
    )
    overall = compare(path, "nccl-tests").to_json()
    means = [
        overall["groups"][name]["mean_ape"]
        for name in ("machine 1 node 8x H200", "machine another")
    ]
    assert overall["overall"]["mean_over_machines"] == pytest.approx(np.mean(means))
    assert overall["overall"]["mean_ape"] == pytest.approx((2 * means[0] + means[1]) / 3)


def test_texts_that_are_not_understood_are_listed(tmp_path):
    answer = compare(table(tmp_path / "t.csv", UNKNOWN), "nccl-tests").to_json()
    assert {(note["column"], note["text"]) for note in answer["not_understood"]} == {
        ("gpu", "Frobnicator 9"),
        ("inter_link", "pigeons"),
    }
    assert "multi-node other transports" in answer["groups"]


def test_rows_of_other_quality_are_predicted_apart(tmp_path):
    answer = compare(table(tmp_path / "t.csv", H200, quality="noisy_small"), "nccl-tests").to_json()
    assert answer["overall"] is None
    assert answer["rows"] == []
    assert len(answer["rows_apart"]) == len(SIZES)
    assert {row["reason"] for row in answer["rows_apart"]} == {"quality: noisy_small"}
    assert answer["overall_apart"]["n"] == len(SIZES)


def test_a_machine_that_shipped_constants_saw_is_predicted_without_it(tmp_path):
    path = part(tmp_path / "t.csv", "nccl_tests.csv", "case_id", "aws_p4de_2n")
    assert set(compare(path, "nccl-tests").constants) == {"shipped, without this machine"}


def test_it_is_recognised_under_another_name(tmp_path):
    path = part(tmp_path / "t.csv", "nccl_tests.csv", "case_id", "aws_p4de_2n")
    path.write_text(path.read_text().replace("2x AWS p4de.24xlarge", "my own cluster"))
    assert set(compare(path, "nccl-tests").constants) == {"shipped, without this machine"}


def test_calibration_fits_every_fourth_size_and_counts_the_others(tmp_path):
    path = table(tmp_path / "t.csv", H200, time=lambda size: 40 + size / 1.5e5)
    answer = compare(path, "nccl-tests", "calibrated").to_json()
    assert [row["bytes"] for row in answer["rows_fitted_on"]] == SIZES[::4]
    assert [row["bytes"] for row in answer["rows"]] == [
        size for size in SIZES if size not in SIZES[::4]
    ]
    assert answer["overall"]["mean_ape"] < compare(path, "nccl-tests").overall["mean_ape"]


def test_sizes_that_count_have_no_part_in_their_prediction(tmp_path):
    honest = table(tmp_path / "a.csv", H200)
    broken = table(
        tmp_path / "b.csv",
        H200,
        time=lambda size: (20 + size / 2e5) * (1 if SIZES.index(size) % 4 == 0 else 7),
    )
    rows = [
        compare(path, "nccl-tests", "calibrated").to_json()["rows"] for path in (honest, broken)
    ]
    assert [row["predicted_us"] for row in rows[0]] == [row["predicted_us"] for row in rows[1]]


def test_a_size_measured_twice_gives_two_rows_with_one_prediction(tmp_path):
    path = table(tmp_path / "t.csv", H200, H200)
    rows = compare(path, "nccl-tests").to_json()["rows"]
    assert len(rows) == 2 * len(SIZES)
    assert rows[0]["predicted_us"] == rows[len(SIZES)]["predicted_us"]
    (case,) = read_table(path, "nccl-tests")
    assert case.nbytes == SIZES


def test_systems_of_one_node(tmp_path):
    path = tmp_path / "t.csv"
    rows = [
        f"{system},2.29.2,all_gather,half,8,{size},{9 + size / 3e5}"
        for system in ("h200_sxm", "rtx_pro_6000_server")
        for size in SIZES
    ]
    path.write_text("\n".join(["system,nccl_version,op,dtype,num_gpus,bytes,time_us", *rows]))
    answer = compare(path, "nccl-single-node").to_json()
    assert {row["system"] for row in answer["rows"]} == {"h200_sxm", "rtx_pro_6000_server"}
    assert {"single-node NVLink", "single-node PCIe"} <= set(answer["groups"])
    assert list(answer["rows"][0]) == [
        "system", "nccl_version", "op", "dtype", "num_gpus", "line", "bytes", "predicted_us", "measured_us",
        "low_us", "high_us", "extrapolated", "ape", "constants", "nearest_machines",
    ]  # fmt: skip
    for row in answer["rows"]:
        assert row["low_us"] < row["predicted_us"] < row["high_us"]
    overall = answer["overall"]
    inside = [row["low_us"] <= row["measured_us"] <= row["high_us"] for row in answer["rows"]]
    assert overall is None or overall["coverage"] == pytest.approx(np.mean(inside))


HEAD = "system,nccl_version,op,dtype,num_gpus,bytes,time_us\n"
BAD = {
    "empty": ("", ":1: must have column names"),
    "no rows": (HEAD, ":2: must have at least 1 row"),
    "a column is missing": (HEAD.replace("bytes", "size"), ":1: must have the column 'bytes'"),
    "no number": (
        HEAD + "h100_sxm,2.29,all_reduce,half,8,8,fast\n",
        ":2: time_us: must be a number, but got 'fast'",
    ),
    "zero time": (
        HEAD + "h100_sxm,2.29,all_reduce,half,8,8,0\n",
        ":2: time_us: must be above 0, but got '0'",
    ),
    "endless time": (
        HEAD + "h100_sxm,2.29,all_reduce,half,8,8,inf\n",
        ":2: time_us: must be above 0, but got 'inf'",
    ),
    "negative size": (
        HEAD + "h100_sxm,2.29,all_reduce,half,8,-8,5\n",
        ":2: bytes: must be above 0, but got '-8'",
    ),
    "half a GPU": (
        HEAD + "h100_sxm,2.29,all_reduce,half,0.5,8,5\n",
        ":2: num_gpus: must be a whole number",
    ),
    "unknown operation": (
        HEAD + "h100_sxm,2.29,all_redoce,half,8,8,5\n",
        ":2: op: must be one of all_reduce",
    ),
    "too few values": (
        HEAD + "h100_sxm,2.29,all_reduce,half,8\n",
        ":2: must have as many values as there are columns",
    ),
    "too many values": (
        HEAD + "h100_sxm,2.29,all_reduce,half,8,8,5,6\n",
        ":2: must have as many values as there are columns",
    ),
    "no text": ("\x00\xff\xfe", ": must be text in UTF-8"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_table_is_one_clear_line_with_its_place(case, tmp_path, dpsim):
    content, message = BAD[case]
    path = tmp_path / "bad.csv"
    path.write_bytes(content.encode("latin-1"))
    code, out, err = dpsim("validate", "reference", "nccl-single-node", path)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_the_command_prints_groups_and_judges(tmp_path, dpsim):
    path = table(tmp_path / "t.csv", H200, UNKNOWN)
    code, out, _ = dpsim("validate", "reference", "nccl-tests", path)
    assert code == 0
    assert "single-node NVLink" in out
    assert "gpu 'Frobnicator 9': taken as an A100-class GPU" in out
    assert dpsim("validate", "reference", "nccl-tests", path, "--tolerance", 100)[0] == 0
    code, out, err = dpsim(
        "validate", "reference", "nccl-tests", path, "--tolerance", 0.0001, "--json"
    )
    assert code == 3
    assert "above the tolerance of 0.0%" in err
    assert json.loads(out)["overall"]["n"] == 2 * len(SIZES)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nccl-test", "x.csv"], "did you mean 'nccl-tests'"),
        (["nccl-tests", "x.csv"], "x.csv: cannot be read"),
        (["nccl-tests", "x.csv", "--regime", "calibrate"], "did you mean 'calibrated'"),
    ],
)
def test_wrong_use(args, message, dpsim):
    code, _, err = dpsim("validate", "reference", *args)
    assert code == 2
    assert message in err


def test_an_outlier_among_known_sizes_and_a_peak_between_them_do_not_count(tmp_path):
    """The first call of a run is slow: known, it must not lift the sizes around it."""

    def predicted(first):
        path = table(
            tmp_path / "t.csv",
            H200,
            time=lambda size: first if size == SIZES[0] else 20 + size / 2e5,
        )
        rows = compare(path, "nccl-tests", "calibrated").to_json()["rows"]
        return {row["bytes"]: row["predicted_us"] for row in rows}

    usual, outlier = predicted(20), predicted(5000)
    known = {size: 20 + size / 2e5 for size in SIZES[::4]}
    for size in usual:
        assert outlier[size] == pytest.approx(usual[size], rel=0.3)
        assert usual[size] <= 1.1 * min([t for at, t in known.items() if at >= size], default=1e9)
