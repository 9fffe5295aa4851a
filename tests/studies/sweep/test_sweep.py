"""A sweep from files to a folder."""

import json
import subprocess
import sys

import pytest
from json_docs import documented_keys
from ruamel.yaml import YAML
from tiny_sweeps import SWEEP, seeds

from dpsim import load_scenario, simulate, sweep
from dpsim.base.errors import DpsimError, FailedError
from dpsim.studies.sweep import COLUMNS
from dpsim.studies.sweep.execute import _Chunks
from dpsim.studies.sweep.expand import plan
from dpsim.studies.sweep.point import pack


def test_every_point_is_a_row_and_failed_points_say_why(swept):
    assert (swept.points, swept.computed, swept.skipped, swept.failed) == (16, 12, 0, 10)
    counted = swept.query(
        "select error like '%must fit in the 16.9 GB%' as large, error like '%is not possible%' as "
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
    assert {path.name for path in (tmp_path / "two").iterdir()} == {
        "manifest.json",
        "points.parquet",
        "results.parquet",
        "rows.log",
        ".lock",
    }


def test_no_more_workers_than_points_and_none_without_memory_are_started(
    write, tmp_path, monkeypatch
):
    started = []

    def noted(missing, store, number, dask):
        started.append(number)
        return iter(())

    monkeypatch.setattr("dpsim.studies.sweep.begin.execute", noted)
    found = sweep(write(SWEEP), tmp_path / "many", workers=1_000)
    assert started == [len(found.missing)]
    monkeypatch.setattr("dpsim.base.budget.available_memory", lambda: 1e8)
    with pytest.raises(FailedError, match=r"workers would need .* take fewer workers"):
        sweep(write(SWEEP), tmp_path / "more", workers=2)


def test_resume_computes_what_is_new_and_skips_the_rest(swept, write, tmp_path):
    out, before = tmp_path / "out", (tmp_path / "out" / "results.parquet").read_bytes()
    with pytest.raises(DpsimError, match="or be given with --resume, but holds a sweep"):
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


def test_other_code_computes_everything_anew(swept, write, tmp_path, monkeypatch):
    from dpsim.studies.sweep import point

    monkeypatch.setattr(point, "_code", lambda root: "other code")
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
    assert "16 points: 12 scenarios computed now, 0 points reused, 10 failed" in out
    assert err == ""
    _, *groups, everything = out.partition("\n\n")[0].splitlines()
    assert everything.startswith("  ... all of them: --sql")
    counted = [int(line.split()[0]) for line in groups if " points, such as " in line]
    assert sum(counted) + sum(line.startswith("  point ") for line in groups) == 10
    assert len(groups) < 4
    assert any(": workload: must fit in the " in line for line in groups)
    code, out, err = dpsim(
        "sweep", write(SWEEP), "-o", tmp_path / "out", "--workers", 1, "--resume", "--json"
    )
    answer = json.loads(out)
    assert (code, answer["skipped"], answer["computed"]) == (3, 12, 0)
    assert list(answer) == ["schema_version", "kind", *documented_keys("dpsim sweep")]
    assert answer["failures"][0] == {
        "point": 6,
        "file": str(tmp_path / "tiny.yaml"),
        "error": answer["failures"][0]["error"],
    }
    assert err == "resuming: 12 of 16 points are computed (6 failed), 0 scenarios to compute\n"
    code, out, _ = dpsim(
        "sweep", write(), "-o", tmp_path / "fine", "--workers", 1, "--set", "run.steps=2"
    )
    assert (code, "1 point: 1 scenario computed now, 0 points reused" in out) == (0, True)


WRONG = {
    "no folder": (
        ["results", "nowhere"],
        "must be the folder of a sweep (dpsim sweep -o), but has no manifest.json",
    ),
    "both forms": (["results", "out", "--csv", "--json"], "--json must not be given with --csv"),
    "two kinds of workers": (
        ["sweep", "tiny.yaml", "-o", "new", "--workers", "1", "--dask", "tcp://x:1"],
        "--workers must not be given with --dask",
    ),
    "no such file": (["sweep", "nope.yaml", "-o", "new"], "there is no such file"),
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


def test_run_takes_the_base_of_a_batch_and_says_so(dpsim, write):
    path = write(SWEEP)
    code, out, err = dpsim("run", path, "--json")
    assert (code, json.loads(out)["name"]) == (0, "tiny")
    assert (
        err
        == f"note: {path} is a sweep, and this is its base, with nothing varied: dpsim sweep {path} -o FOLDER computes its points\n"
    )


def test_check_looks_into_the_sweep(dpsim, write):
    code, out, _ = dpsim("check", write("{parameters: {cluster.nodez: {values: [1]}}}"))
    assert code == 2
    assert "cluster.nodez: is not a known key" in out


def test_a_missing_scheduler_is_a_one_line_error(dpsim, write, tmp_path):
    pytest.importorskip("distributed")
    code, _, err = dpsim("sweep", write(), "-o", tmp_path / "out", "--dask", "nonsense://x:1")
    assert code == 1
    assert "--dask: no scheduler answers at 'nonsense://x:1'" in err


def test_what_is_no_address_of_a_scheduler_is_refused_before_a_folder_is_made(
    dpsim, write, tmp_path
):
    code, _, err = dpsim("sweep", write(), "-o", tmp_path / "new", "--dask", "local")
    assert (code, err) == (
        2,
        "dpsim: --dask: must be a scheduler's address, such as tcp://host:8786, but got 'local'\n",
    )
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "before",
    [
        "import dpsim.studies.sweep.store; from dpsim.studies.sweep import plan",
        "import dpsim.cli",
        "",
    ],
)
def test_the_python_face_is_the_function_whatever_was_imported_before(before):
    names = "Result, Scenario, load_scenario, simulate, sweep"
    code = f"{before}\nfrom dpsim import {names}\nprint(type(sweep).__name__, sweep.__module__)"
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert output == "function dpsim.studies.sweep.begin\n"


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


def test_workers_are_handed_chunks_of_about_a_second():
    """A point of 10 ms: 1, then twice as many each time, then 100; the last are an eighth of it."""
    chunks = _Chunks(map(str, range(1000)), workers=2, at_once=4)
    handed = []
    while keys := chunks.next(in_flight=0):
        handed.append(len(keys))
        chunks.took(keys, len(keys), 0.01 * len(keys))
    assert handed[:9] == [1, 2, 4, 8, 16, 32, 64, 100, 100]
    assert sum(handed) == 1000
    assert all(12 <= number < 100 for number in handed[13:-1])
    assert handed[-1] <= 12


def test_until_a_chunk_takes_a_second_few_are_handed_out():
    chunks = _Chunks(map(str, range(1000)), workers=2, at_once=400)
    assert [len(chunks.next(in_flight)) for in_flight in range(6)] == [1, 1, 1, 1, 0, 0]
    for _ in range(2):  # each worker's first chunk says little
        chunks.took(["1000"], 1, 1.0)
        assert not chunks.next(in_flight=4)
    chunks.took(["1000"], 1, 1.0)
    assert len(chunks.next(in_flight=399)) == 1


def test_what_a_worker_leaves_of_a_chunk_is_handed_over_next():
    chunks = _Chunks("abcdefgh", workers=1, at_once=2)
    chunks.took(chunks.next(in_flight=0), 1, 0.001)
    chunks.took(keys := chunks.next(in_flight=0), 1, 5.0)
    assert (keys, chunks.next(in_flight=0), chunks.next(in_flight=2)) == (["b", "c"], ["c"], [])


def test_scenarios_of_a_sweep_take_few_bytes_on_the_way(write):
    content = [(point.key, point.content) for point in plan([write(seeds(50))], []).points]
    assert len(pack(content)) < 150 * len(content)
