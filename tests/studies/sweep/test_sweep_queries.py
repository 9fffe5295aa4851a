"""Queries of a sweep's folder."""

import csv
import io
import json

import pytest
from json_docs import documented_keys
from tiny_sweeps import SWEEP, TINY

from dpsim import sweep
from dpsim.base.errors import DpsimError
from dpsim.studies.sweep import Answer, pareto_points, query


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """The sweep of the tiny scenario, which questions leave as it is."""
    folder = tmp_path_factory.mktemp("queried")
    path = folder / "tiny.yaml"
    path.write_text(f"{TINY}sweep: {SWEEP}\n")
    return sweep(path, folder / "out", workers=1)


def test_results_come_as_table_json_and_csv(dpsim, swept):
    sql = "select seed, batch_per_gpu, step_time_s, error from results where seed = 0 order by point limit 2"
    code, table, err = dpsim("results", swept.folder, "--sql", sql)
    assert (code, err) == (0, "")
    assert "batch_per_gpu" in table
    code, text, _ = dpsim("results", swept.folder, "--sql", sql, "--json")
    answer = json.loads(text)
    assert list(answer) == ["schema_version", "kind", *documented_keys("dpsim results")]
    assert (answer["points"], answer["done"]) == (16, 16)
    _, text, _ = dpsim("results", swept.folder, "--sql", sql, "--csv")
    header, *rows = csv.reader(io.StringIO(text))
    assert header == answer["columns"] == ["seed", "batch_per_gpu", "step_time_s", "error"]
    assert [float(row[2]) for row in rows] == [row["step_time_s"] for row in answer["rows"]]
    _, text, _ = dpsim("results", swept.folder, "--csv")
    assert len(text.splitlines()) == 17


def test_the_columns_are_documented(swept):
    varied = {"batch_per_gpu", "strategy.aggregation.kind", "strategy.overlap.kind"}
    assert [name for name in swept.query().columns if name not in varied] == documented_keys(
        "results"
    )


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
    code, out, err = dpsim("results", swept.folder, "--sql", sql)
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


def test_the_front_has_the_points_that_no_other_beats_in_both(dpsim, swept, tmp_path):
    everything = json.loads(dpsim("results", swept.folder, "--json")[1])["rows"]
    requested = ("--pareto", "memory,step_time_s")
    drawn = tmp_path / "front.html"
    code, text, err = dpsim("results", swept.folder, *requested, "--json", "--plot", drawn)
    assert code == 0, err
    found = [(row["memory_bytes"], row["step_time_s"]) for row in json.loads(text)["rows"]]
    done = [row for row in everything if not row["error"]]
    points = {(row["memory_bytes"], row["step_time_s"]) for row in done}
    beaten = {
        one
        for one in points
        for other in points
        if other != one and other[0] <= one[0] and other[1] <= one[1]
    }
    assert set(found) == points - beaten
    assert found == sorted(found)
    assert "step time (ms) against" in drawn.read_text()


def pareto(rows, monkeypatch):
    """The front in price and time of points with these figures, and its notes."""
    columns = ("point", "total_price", "total_time_s")
    numbered = tuple((number, *row) for number, row in enumerate(rows))
    every = Answer(columns, numbered, len(rows), len(rows))
    monkeypatch.setattr("dpsim.studies.sweep.pareto.query", lambda folder: every)
    found = pareto_points("folder", "price,time")
    return [row[0] for row in found.front.rows], found.notes


def test_points_that_are_equal_in_both_are_all_in_the_front(monkeypatch):
    """Of as many GPUs price is time times a constant, so that there is nothing to weigh up."""
    front, notes = pareto([(6.0, 3.0), (4.0, 2.0), (8.0, 4.0), (4.0, 2.0)], monkeypatch)
    assert front == [1, 3]
    (note,) = notes
    assert note.startswith("one point is best in both total_price and total_time_s, as are all 2")
    assert note.endswith("in proportion to total_price in all points, since it is of as many GPUs")
    front, (note,) = pareto([(4.0, 2.0), (8.0, 3.0)], monkeypatch)
    assert (front, note) == ([0], "one point is best in both total_price and total_time_s")


def test_a_front_says_where_a_figure_hardly_differs(monkeypatch):
    front, notes = pareto([(100.0, 9.0), (100.5, 5.0), (200.0, 4.0), (300.0, 8.0)], monkeypatch)
    assert front == [0, 1, 2]
    assert notes == [
        "points 0, 1 are within 1% of the least total_price: choose among them by total_time_s"
    ]


PARETO = {
    "price": "must be two figures",
    "time,nothing": "but got 'nothing'",
    "time,algorithms": "but got 'algorithms'",
    "time,goodput": "but got 'goodput', which no point has",
}


@pytest.mark.parametrize("figures", PARETO)
def test_a_front_is_of_two_columns_of_numbers(dpsim, swept, figures):
    code, out, err = dpsim("results", swept.folder, "--pareto", figures)
    assert (code, out) == (2, "")
    assert PARETO[figures] in err


def test_a_sweep_says_what_its_training_takes(dpsim, tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(f"{TINY}sweep: {SWEEP}\n")
    price = ("--set", "cost.price_per_gpu_hour=2")
    code, out, err = dpsim(
        "sweep", path, "-o", tmp_path / "out", "--workers", 1, "--samples", "1M", *price
    )
    assert code == 3, err  # some points of it cannot be
    assert "total time" in out
    row = json.loads(dpsim("results", tmp_path / "out", "--json")[1])["rows"][0]
    assert row["error"] is None
    assert row["total_price"] == pytest.approx(2 * row["total_gpu_hours"])
    assert row["total_price"] == pytest.approx(row["price_per_million_samples"])
    assert row["total_time_s"] == row["seconds_per_million_samples"]
