"""Step times.

No row is scored by constants that saw it, unknown things are said, and errors are no worse than
committed.
"""

import json

import pytest
from step_rows import DATA, TABLES, lines, one_cluster, written

from dpsim.base.errors import DpsimError
from validate.published import compare_steps

SMALL = {
    "adaptdl": one_cluster,
    "vtrain": lambda row: row["layers"] == "12",
    "scaling": lambda row: row["case_id"].startswith(("tf_dgx1p100", "dle_txlbase")),
    "overlap": lambda row: row["case_id"].startswith("hkbu_v100"),
    "imagenet": lambda row: row["record_id"] in ("he2016", "goyal2017", "akiba2017"),
    "llm": lambda row: (
        row["source"].endswith("readme")
        and row["model"] in ("mpt-1b", "mpt-3b")
        and row["seq_len"] in ("2048", "8192")
        and (row["gpu"], row["gpus"], row["precision"]) == ("h100-sxm-80gb", "8", "bf16")
    ),
}


def poisoned(kind, rows, scored):
    """The same table with tenfold measurements in the rows of one group and its lines."""
    out = []
    for row in rows:
        changed = dict(row)
        if scored(row):
            for name in ("step_time_ms", "iteration_time_ms", "exposed_sync_ms", "step_time_s"):
                if changed.get(name):
                    changed[name] = str(10 * float(changed[name]))
            if changed.get("throughput"):
                changed["throughput"] = str(float(changed["throughput"]) / 10)
            if changed.get("time_min"):
                changed["time_min"] = str(10 * float(changed["time_min"]))
        out.append(changed)
    return out


# One group of each kind that a fit on the same file must not see, as a test of its rows. Of a
# scaling case the smallest configuration is what its compute is calibrated on, so only the larger
# ones are poisoned.
GROUPS = {
    "adaptdl": lambda row: row["model"] == "cifar10" and int(row["gpus"]) > 4,
    "vtrain": lambda row: (row["hidden_size"], row["layers"]) == ("2048", "12"),
    "scaling": lambda row: row["case_id"] == "tf_dgx1p100_synth_resnet50" and row["gpus"] != "1.0",
    "overlap": lambda row: row["model"] == "DenseNet-201",
    "imagenet": lambda row: row["record_id"] == "goyal2017",
    "llm": lambda row: row["model"] == "mpt-1b",
}


# Fitting adaptdl twice takes ten seconds.
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.wide) if kind == "adaptdl" else kind for kind in SMALL],
)
def test_no_prediction_reads_its_own_measurement(kind, tmp_path):
    rows = lines(kind, SMALL[kind])
    clean = written(tmp_path / "clean.csv", rows)
    poison = written(tmp_path / "poison.csv", poisoned(kind, rows, GROUPS[kind]))
    hidden = {number for number, row in enumerate(rows, 2) if GROUPS[kind](row)}
    before, after = (
        {
            row.line: row
            for row in compare_steps(path, kind, fit_on=[path]).every
            if row.line in hidden
        }
        for path in (clean, poison)
    )
    assert set(before) == hidden
    for line in hidden:
        assert before[line].status in ("counted", "apart")
        if kind == "scaling":
            assert after[line].efficiency[0] == before[line].efficiency[0]
            assert after[line].efficiency[1] == pytest.approx(before[line].efficiency[1] / 10)
        else:
            assert after[line].predicted == before[line].predicted
            assert after[line].measured == pytest.approx(10 * before[line].measured)


@pytest.mark.parametrize("kind", ["vtrain"])
def test_a_copy_of_the_file_under_another_name_is_still_recognised(kind, tmp_path):
    rows = lines(kind, SMALL[kind])
    one, other = (
        written(tmp_path / "one.csv", rows),
        written(tmp_path / "other.csv", poisoned(kind, rows, lambda row: True)),
    )
    result = compare_steps(one, kind, fit_on=[other])
    assert result.left_out is not None
    assert all("without this" in row.constants for row in result.counted)


def test_shipped_constants_have_seen_the_public_rows_and_do_not_score_them(tmp_path):
    rows = lines("vtrain", lambda row: (row["hidden_size"], row["layers"]) == ("1024", "12"))
    new = [{**row, "layers": "13"} for row in rows]
    result = compare_steps(written(tmp_path / "mixed.csv", rows + new), "vtrain")
    assert result.constants == {"shipped": len(new), "shipped, without this pair": len(rows)}


def test_shipped_and_fitted_constants_agree(tmp_path):
    rows = [{**row, "layers": "13"} for row in lines("vtrain")]
    path = written(tmp_path / "new.csv", rows)
    shipped, fitted = (
        compare_steps(path, "vtrain"),
        compare_steps(path, "vtrain", fit_on=[DATA / TABLES["vtrain"]]),
    )
    assert shipped.left_out is None
    assert [row.predicted for row in shipped.counted] == pytest.approx(
        [row.predicted for row in fitted.counted], rel=1e-3
    )


def left_out(kind):
    """What a fit on the whole table says of its rows, each without its own group."""
    path = DATA / TABLES[kind]
    return compare_steps(path, kind, fit_on=[path])


# What the fits leave out; the guards are the committed values, rounded up.
def test_vtrain_pairs_left_out():
    assert left_out("vtrain").overall["mean_ape"] < 0.003


@pytest.mark.parametrize(("known", "limit"), [("1024", 0.028), ("2048", 0.044)])
def test_vtrain_across_widths(known, limit, tmp_path):
    fit_on = written(
        tmp_path / "known.csv", lines("vtrain", lambda row: row["hidden_size"] == known)
    )
    other = written(
        tmp_path / "other.csv", lines("vtrain", lambda row: row["hidden_size"] != known)
    )
    result = compare_steps(other, "vtrain", fit_on=[fit_on])
    assert result.left_out is None
    assert result.overall["mean_ape"] < limit


@pytest.mark.wide
def test_scaling_cases_left_out():
    overall = left_out("scaling").overall
    assert overall["n"] == 467
    assert overall["median_points"] < 0.025
    assert overall["mean_points"] < 0.046


@pytest.mark.parametrize(
    ("cluster", "limit"),
    [
        pytest.param("rtx2080ti", 0.050, marks=pytest.mark.wide),
        pytest.param("dgx_a100", 0.055, marks=pytest.mark.wide),
    ],
)
def test_adaptdl_models_left_out(cluster, limit, tmp_path):
    path = written(
        tmp_path / "cluster.csv", lines("adaptdl", lambda row: row["cluster"] == cluster)
    )
    result = compare_steps(path, "adaptdl", fit_on=[path])
    assert result.overall["mean_ape"] < limit
    assert all(int(row.identity["gpus"]) > 4 for row in result.counted)
    assert len(result.counted) + len(result.fitted) == len(
        lines("adaptdl", lambda row: row["cluster"] == cluster)
    )


@pytest.mark.wide
def test_adaptdl_models_left_out_everywhere():
    path = DATA / TABLES["adaptdl"]
    result = compare_steps(path, "adaptdl", fit_on=[path])
    assert {row.identity["cluster"] for row in result.apart} == {"azure_nd40rsv2_v100"}
    assert result.overall["mean_ape"] < 0.061
    assert result.overall["p95_ape"] < 0.18


def test_json_has_what_readers_are_promised(tmp_path):
    path = written(
        tmp_path / "a.csv",
        lines("scaling", lambda row: row["case_id"] == "tf_dgx1p100_synth_resnet50"),
    )
    content = json.loads(json.dumps(compare_steps(path, "scaling").to_json(), allow_nan=False))
    assert {
        "schema_version",
        "kind",
        "overall",
        "groups",
        "rows",
        "left_out",
        "not_predicted",
        "notes",
    } <= set(content)
    row = content["rows"][0]
    assert {
        "case_id",
        "gpus",
        "predicted_ms",
        "measured_ms",
        "predicted_efficiency",
        "measured_efficiency",
    } <= set(row)
    assert row["ape"] == pytest.approx(
        abs(row["predicted_efficiency"] / row["measured_efficiency"] - 1)
    )
    assert {"n", "median_ape", "mean_ape", "p95_ape", "worst_ape", "median_points"} <= set(
        content["overall"]
    )


@pytest.mark.parametrize("kind", SMALL)
def test_a_missing_column_is_named(kind, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(DpsimError, match="must have the column"):
        compare_steps(path, kind)


def test_a_cell_that_is_no_number_is_named(tmp_path):
    path = written(tmp_path / "bad.csv", [{**lines("vtrain")[0], "layers": "many"}])
    with pytest.raises(DpsimError, match=r"bad.csv:2: layers: must be a number, but got 'many'"):
        compare_steps(path, "vtrain")


def test_a_missing_file_to_fit_on_is_named(tmp_path):
    with pytest.raises(DpsimError, match="must be a CSV file to fit on"):
        compare_steps(DATA / TABLES["vtrain"], "vtrain", fit_on=[tmp_path / "none.csv"])


PART = {**SMALL, "adaptdl": lambda row: one_cluster(row) and row["model"] == "cifar10"}


# To fit a part of a table on itself is quick. By what is shipped, the whole table is fitted again
# for each group of the part: that is what the groups left out are.
@pytest.mark.parametrize("fitted_on", ["itself", pytest.param("all", marks=pytest.mark.wide)])
@pytest.mark.parametrize("kind", [kind for kind in SMALL if kind != "llm"])
def test_rows_lie_between_the_ends_that_other_groups_left(kind, fitted_on, tmp_path):
    """Nine in ten of the whole table by their making; of a part of it most of them."""
    path = written(tmp_path / "part.csv", lines(kind, PART[kind]))
    answer = compare_steps(path, kind, fit_on=[path] if fitted_on == "itself" else []).to_json()
    name = "min" if kind == "imagenet" else "ms"
    between = [row for row in answer["rows"] if row[f"low_{name}"] is not None]
    assert between
    for row in between:
        assert 0 < row[f"low_{name}"] < row[f"predicted_{name}"] * 1.1
        assert row[f"low_{name}"] < row[f"high_{name}"]
        assert row["extrapolated"] == []
    inside = [
        row[f"low_{name}"] <= row[f"measured_{name}"] <= row[f"high_{name}"] for row in between
    ]
    assert answer["overall"]["coverage"] == pytest.approx(sum(inside) / len(inside))
