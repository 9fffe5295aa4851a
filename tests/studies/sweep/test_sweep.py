"""A sweep from files to a folder, and what can be asked of it then."""

import csv
import io
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from dpsim import load_scenario, simulate, sweep
from dpsim.base.errors import DpsimError, FailedError
from dpsim.studies.sweep import COLUMNS, journal, query
from dpsim.studies.sweep.compute import Workplace, compute
from dpsim.studies.sweep.execute import execute
from dpsim.studies.sweep.store import Store
from dpsim.studies.sweep.table import Table, write_parquet

ROOT = Path(__file__).parents[3]
SWEEP = """{parameters: {
  workload.batch_per_gpu: {values: [16, 1000000]}, strategy.aggregation.kind: {values: [allreduce, gossip]},
  strategy.overlap.kind: {values: [wfbp, priority]}, run.seed: {values: [0, 1]}}}"""
"""16 points: 4 mean nothing, 6 of the others are too large, 6 work."""


def documented(heading):
    section = (ROOT / "docs" / "json.md").read_text().split(f"## `{heading}")[1].split("\n##")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


@pytest.fixture
def swept(write, tmp_path):
    """A sweep of which some points failed, by one worker."""
    return sweep(write(SWEEP), tmp_path / "out", workers=1)


def test_every_point_is_a_row_and_failed_points_say_why(swept):
    assert (swept.points, swept.computed, swept.skipped, swept.failed) == (16, 12, 0, 10)
    counted = swept.query(
        "select error like '%must fit in the 16 GB%' as large, error like '%means nothing%' as "
        "odd, count(*), count(step_time_s)"
        " from results group by all order by all"
    )
    assert set(counted.rows) == {(False, True, 4, 0), (True, False, 6, 0), (None, None, 6, 6)}


def test_a_row_is_the_result_of_its_scenario(swept, write):
    sets = ["workload.batch_per_gpu=16", "strategy.overlap.kind=priority", "run.seed=1"]
    result = simulate(load_scenario(write(), sets))
    answer = swept.query(
        "from results where batch_per_gpu = 16 and \"strategy.overlap.kind\" = 'priority' and "
        "seed = 1 and error is null"
    )
    (row,) = answer.to_json()["rows"]
    assert (row["name"], row["point"], row["strategy.aggregation.kind"]) == ("tiny", 3, "allreduce")
    assert {column.name: row[column.name] for column in COLUMNS} == {
        column.name: column.of(result) for column in COLUMNS
    }
    assert (
        row["step_time_s"]
        == result.step_time_s["mean"]
        == pytest.approx(sum(row[f"{part}_s"] for part in result.parts_s))
    )


def test_the_same_bytes_whatever_the_number_of_workers(swept, write, tmp_path):
    sweep(write(SWEEP), tmp_path / "two", workers=2)
    for name in ("results.parquet", "points.parquet"):
        assert (tmp_path / "two" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
    assert 1 <= len(list((tmp_path / "two" / "shards").iterdir())) <= 2
    assert {path.name for path in (tmp_path / "two").iterdir()} == {
        "manifest.json",
        "points.parquet",
        "results.parquet",
        "shards",
        ".lock",
    }


def test_no_more_workers_than_points_and_none_without_memory_are_started(
    write, tmp_path, monkeypatch
):
    started = []

    def noted(missing, store, number, dask):
        started.append(number)
        return iter(())

    monkeypatch.setattr("dpsim.studies.sweep.execute.execute", noted)
    found = sweep(write(SWEEP), tmp_path / "many", workers=1_000)
    assert started == [len(found.missing)]
    monkeypatch.setattr("dpsim.base.budget.memory_here", lambda: 1e8)
    with pytest.raises(FailedError, match=r"workers would need .* take fewer workers"):
        sweep(write(SWEEP), tmp_path / "more", workers=2)


def test_resume_computes_what_is_new_and_skips_the_rest(swept, write, tmp_path):
    out, before = tmp_path / "out", (tmp_path / "out" / "results.parquet").read_bytes()
    with pytest.raises(DpsimError, match="or stand with --resume, but holds a sweep"):
        sweep(write(SWEEP), out)
    again = sweep(write(SWEEP), out, workers=1, resume=True)
    assert (again.points, again.computed, again.skipped, again.failed) == (16, 0, 12, 10)
    assert (out / "results.parquet").read_bytes() == before
    more = sweep(
        write(SWEEP.replace("[0, 1]", "[2, 0]").replace("[16, 1000000]", "[16]")),
        out,
        workers=1,
        resume=True,
    )
    assert (more.points, more.computed, more.skipped, more.failed) == (8, 3, 3, 2)
    assert {row[0] for row in more.query("select seed from results").rows} == {0, 2}


def test_another_version_computes_everything_anew(swept, write, tmp_path, monkeypatch):
    from dpsim.studies.sweep import key

    monkeypatch.setattr(key, "_version", lambda: "0.0.1")
    again = sweep(write(SWEEP), tmp_path / "out", workers=1, resume=True)
    assert (again.computed, again.skipped) == (12, 0)


def test_files_that_vary_different_fields_make_one_table(write, tmp_path):
    write("{parameters: {cluster.nodes: {values: [2, 4]}}}", "in/a.yaml")
    write("{parameters: {workload.batch_per_gpu: {values: [8]}}}", "in/b.yaml")
    swept = sweep([tmp_path / "in"], tmp_path / "out", workers=1)
    rows = swept.query(
        "select parse_filename(file), nodes, batch_per_gpu, workers from results"
    ).rows
    assert rows == (("a.yaml", 2, None, 2), ("a.yaml", 4, None, 4), ("b.yaml", None, 8, 2))


def test_the_command_says_what_it_did_and_ends_with_3_where_points_failed(dpsim, write, tmp_path):
    code, out, err = dpsim("sweep", write(SWEEP), "-o", tmp_path / "out", "--workers", 1)
    assert code == 3
    assert "16 points: 12 scenarios computed now, 0 points were there, 10 failed" in out
    assert err == ""
    code, out, err = dpsim(
        "sweep", write(SWEEP), "-o", tmp_path / "out", "--workers", 1, "--resume", "--json"
    )
    answer = json.loads(out)
    assert (code, answer["skipped"], answer["computed"]) == (3, 12, 0)
    assert list(answer) == ["schema_version", "kind", *documented("dpsim sweep")]
    assert answer["failures"][0] == {
        "point": 6,
        "file": str(tmp_path / "tiny.yaml"),
        "error": answer["failures"][0]["error"],
    }
    assert err == "resuming: 12 of 16 points are there (6 of them failed), 0 scenarios to compute\n"
    code, out, _ = dpsim(
        "sweep", write(), "-o", tmp_path / "fine", "--workers", 1, "--set", "run.steps=2"
    )
    assert (code, "1 point: 1 scenario computed now, 0 points were there" in out) == (0, True)


def test_results_come_as_table_json_and_csv(dpsim, swept, tmp_path):
    sql = "select seed, batch_per_gpu, step_time_s, error from results where seed = 0 order by point limit 2"
    code, table, err = dpsim("results", tmp_path / "out", "--sql", sql)
    assert (code, err) == (0, "")
    assert "batch_per_gpu" in table
    code, text, _ = dpsim("results", tmp_path / "out", "--sql", sql, "--json")
    answer = json.loads(text)
    assert list(answer) == ["schema_version", "kind", *documented("dpsim results")]
    assert (answer["points"], answer["done"]) == (16, 16)
    _, text, _ = dpsim("results", tmp_path / "out", "--sql", sql, "--csv")
    header, *rows = csv.reader(io.StringIO(text))
    assert header == answer["columns"] == ["seed", "batch_per_gpu", "step_time_s", "error"]
    assert [float(row[2]) for row in rows] == [row["step_time_s"] for row in answer["rows"]]
    _, text, _ = dpsim("results", tmp_path / "out", "--csv")
    assert len(text.splitlines()) == 17


def test_the_columns_are_documented(swept):
    section = (
        (ROOT / "docs" / "json.md")
        .read_text()
        .split("### The table `results`")[1]
        .split("\n## ")[0]
    )
    names = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    varied = {"batch_per_gpu", "strategy.aggregation.kind", "strategy.overlap.kind"}
    assert [name for name in swept.query().columns if name not in varied] == names


NOT_ASKED = {
    "select * from read_text('/etc/hostname')": "file system operations are disabled",
    "select * from '/etc/hostname'": "does not exist",
    "select * from glob('/*')": "file system operations are disabled",
    "attach 'x.db'": "must be one select statement, but got ATTACH",
    "copy results to 'x.csv'": "must be one select statement, but got COPY",
    "drop table results": "must be one select statement, but got DROP",
    "set enable_external_access = true": "must be one select statement, but got SET",
    "install httpfs": "must be one select statement, but got LOAD",
    "select 1; select 2": "must be one select statement, but got SELECT, SELECT",
    "": "must be one select statement, but got nothing",
    "selec": "syntax error",
    "select steptime from results": 'Referenced column "steptime" not found',
    "select * from table_of_the_caller": "does not exist",
}


@pytest.mark.parametrize("sql", NOT_ASKED)
def test_sql_sees_the_results_and_nothing_else(dpsim, swept, tmp_path, monkeypatch, sql):
    monkeypatch.chdir(tmp_path)
    code, out, err = dpsim("results", "out", "--sql", sql)
    assert (code, out) == (2, "")
    assert err.startswith("dpsim: --sql: ")
    assert NOT_ASKED[sql] in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "x.db").exists()


def test_values_that_json_does_not_know_are_null_or_text(swept):
    answer = query(
        swept.folder,
        "select 1/0.0 as a, date '2020-01-31' as b, [1, 'NaN'::double] as c, {'x': 0.5} as d, 1 "
        "as d",
    )
    assert answer.rows == ((None, "2020-01-31", [1.0, None], {"x": 0.5}, 1),)
    with pytest.raises(DpsimError, match="got two of 'd'"):
        answer.to_json()


WRONG = {
    "no folder": (
        ["results", "nowhere"],
        "must be the folder of a sweep (dpsim sweep -o), but has no manifest.json",
    ),
    "both forms": (["results", "out", "--csv", "--json"], "--json must stand without --csv"),
    "two kinds of workers": (
        ["sweep", "tiny.yaml", "-o", "new", "--workers", "1", "--dask", "tcp://x:1"],
        "--workers must stand without --dask",
    ),
    "no such file": (["sweep", "nope.yaml", "-o", "new"], "there is none of this name"),
    "a folder of other things": (
        ["sweep", "tiny.yaml", "-o", "."],
        "must be a new or empty folder",
    ),
    "a file for a folder": (
        ["sweep", "tiny.yaml", "-o", "tiny.yaml"],
        "must be a new or empty folder",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_use_is_one_clear_line_and_code_2(dpsim, write, tmp_path, monkeypatch, wrong):
    write()
    monkeypatch.chdir(tmp_path)
    args, message = WRONG[wrong]
    code, out, err = dpsim(*args)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_broken_folder_is_said_to_be_one(swept, tmp_path):
    (tmp_path / "out" / "points.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(
        DpsimError, match=r"points\.parquet: must be what dpsim sweep wrote, but cannot be read"
    ):
        query(tmp_path / "out")


@pytest.mark.parametrize("how", ["torn", "edited"])
def test_a_shard_that_cannot_be_read_names_itself_and_the_way_out(
    dpsim, swept, write, tmp_path, how
):
    out, before = tmp_path / "out", (tmp_path / "out" / "results.parquet").read_bytes()
    shard = next((out / "shards").iterdir())
    if how == "torn":
        shard.write_bytes(shard.read_bytes()[:200])
    else:
        write_parquet(Table({"key": str}, [("a",)]), shard)
    resume = ["sweep", write(SWEEP), "-o", out, "--workers", 1, "--resume"]
    for command in (["results", out], resume):
        code, _, err = dpsim(*command)
        assert code == 2
        assert err.startswith(f"dpsim: {shard}: must be what dpsim sweep wrote, but ")
        assert "--repair sets it aside" in err
    assert dpsim(*resume, "--repair")[0] == 3  # some points fail, as they did
    assert [path.suffix for path in (out / "shards").iterdir()].count(".unreadable") == 1
    assert (out / "results.parquet").read_bytes() == before
    assert dpsim("results", out)[0] == 0


def test_the_lock_is_not_taken_through_a_link(dpsim, write, tmp_path):
    (tmp_path / "worth").write_text("kept")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".lock").symlink_to(tmp_path / "worth")
    code, _, err = dpsim("sweep", write(SWEEP), "-o", tmp_path / "out")
    assert (code, len(err.splitlines())) == (1, 1)
    assert f"{tmp_path / 'out'}: cannot be written" in err
    assert (tmp_path / "worth").read_text() == "kept"


def test_run_takes_the_base_of_a_batch_and_says_so(dpsim, write):
    path = write(SWEEP)
    code, out, err = dpsim("run", path, "--json")
    assert (code, json.loads(out)["name"]) == (0, "tiny")
    assert (
        err
        == f"note: {path} is a batch, of which this is the base, nothing varied: dpsim sweep {path} -o FOLDER computes its points\n"
    )


def test_check_looks_into_the_sweep(dpsim, write):
    code, out, _ = dpsim("check", write("{parameters: {cluster.nodez: {values: [1]}}}"))
    assert code == 2
    assert "cluster.nodez: is not a known key" in out


def test_two_runs_at_once_keep_out_of_each_others_way(tmp_path):
    with (
        Store(tmp_path / "out").open(resume=False),
        pytest.raises(FailedError, match="another sweep is at work"),
    ):
        Store(tmp_path / "out").open(resume=True).__enter__()


def test_a_line_that_was_cut_off_is_a_scenario_that_was_not_done(tmp_path):
    journal.write(tmp_path, "w", journal.BEGUN, {"key": "a"})
    journal.write(tmp_path, "w", journal.DONE, {"key": "a", "x": 0.1})
    journal.write(tmp_path, "w", journal.BEGUN, {"key": "b"})
    with (tmp_path / "w.jsonl").open("a") as file:
        file.write('{"event": "done", "key": "b", "x": 0.')
    assert list(journal.rows(tmp_path / "w.jsonl")) == [{"key": "a", "x": 0.1}]
    assert journal.in_flight([tmp_path / "w.jsonl"]) == {"b"}


def test_a_worker_that_does_not_see_the_folder_hands_its_row_over(write, tmp_path):
    content = pickle.dumps(load_scenario(write()))
    row = compute("k", content, Workplace(tmp_path / "not here"))
    assert (row["key"], row["error"], row["kept"]) == ("k", None, False)
    with Store(tmp_path / "out").open(resume=False) as store:
        store.note(row)
        assert store.rows()["k"]["step_time_s"] == row["step_time_s"]


def test_an_unforeseen_error_is_a_row_that_is_tried_again(tmp_path):
    with Store(tmp_path / "out").open(resume=False) as store:
        (row,) = execute({"k": b"no pickle"}, store, 1, None)
        assert row["error"].startswith("failed: UnpicklingError")
        assert store.rows()["k"]["retry"]


class Killer:
    """Unpickled, it kills its process, as the kernel does where memory runs out."""

    def __reduce__(self):
        return exec, (f"import os\nif os.getpid() != {os.getpid()}: os.kill(os.getpid(), 9)",)


def test_a_scenario_that_kills_its_workers_is_a_row_and_costs_no_other(write, tmp_path):
    fine = pickle.dumps(load_scenario(write()))
    contents = {
        f"k{number}": pickle.dumps(Killer()) if number == 2 else fine for number in range(6)
    }
    with Store(tmp_path / "out").open(resume=False) as store:
        rows = {row["key"]: row for row in execute(contents, store, 2, None)}
        assert rows.keys() == contents.keys() == store.rows().keys()
    assert [key for key, row in rows.items() if row["error"]] == ["k2"]
    assert "its worker process was killed" in rows["k2"]["error"]
    assert rows["k2"]["retry"]


def test_no_scheduler_is_said_in_a_line(dpsim, write, tmp_path):
    pytest.importorskip("distributed")
    code, _, err = dpsim("sweep", write(), "-o", tmp_path / "out", "--dask", "nonsense://x")
    assert code == 1
    assert "--dask: no scheduler answers at 'nonsense://x'" in err


@pytest.mark.parametrize(
    "before",
    [
        "import dpsim.studies.sweep.store",
        "from dpsim.studies.sweep import plan",
        "import dpsim.cli",
        "",
    ],
)
def test_the_python_face_is_the_function_whatever_was_imported_before(before):
    names = "Result, Scenario, load_scenario, simulate, sweep"
    code = f"{before}\nfrom dpsim import {names}\nprint(type(sweep).__name__, sweep.__module__)"
    said = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert said == "function dpsim.studies.sweep.sweep\n"


EDGES = (
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="l" for="edge" '
    'attr.name="link" attr.type="string"/><graph edgedefault="undirected"><node id="node0/nic0"/>'
    '<node id="node1/nic0"/><edge source="node0/nic0" target="node1/nic0"><data key="l">{}</data></edge>'
    "</graph></graphml>"
)


@pytest.mark.parametrize(
    ("name", "field", "before", "after"),
    [
        ("h.csv", "disturbance.jitter", "value\n1\n2\n", "value\n1\n4\n"),
        ("n.graphml", "cluster.network", EDGES.format("25GbE"), EDGES.format("10GbE")),
    ],
)
def test_resume_computes_anew_what_reads_a_file_that_has_changed(
    name, field, before, after, write, tmp_path
):
    named = {
        "disturbance.jitter": {"kind": "histogram", "file": name},
        "cluster.network": {"fabric": "custom", "graphml": name, "nics_per_node": 1},
    }[field]
    room, key = field.split(".")
    scenario = YAML(typ="safe").load(write().read_text())
    scenario[room][key] = named
    scenario["sweep"] = {"parameters": {"run.seed": {"values": [0, 1]}}}
    path = tmp_path / "s.yaml"
    path.write_text(json.dumps(scenario))
    (tmp_path / name).write_text(before)
    ask = "select step_time_s from results order by point"
    first = sweep(path, tmp_path / "out", workers=1).query(ask).rows
    same = sweep(path, tmp_path / "out", workers=1, resume=True)
    assert (same.computed, same.skipped) == (0, 2)
    (tmp_path / name).write_text(after)
    again = sweep(path, tmp_path / "out", workers=1, resume=True)
    assert (again.computed, again.skipped) == (2, 0)
    assert all(new != old for new, old in zip(again.query(ask).rows, first, strict=True))
