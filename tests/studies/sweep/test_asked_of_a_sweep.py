"""What can be asked of a sweep's folder."""

import csv
import io
import json
import re

import pytest
from tiny_sweeps import ROOT, SWEEP, TINY, documented

from dpsim import sweep
from dpsim.base.errors import DpsimError
from dpsim.studies.sweep import query


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """The sweep of the tiny scenario, which questions leave as it is."""
    folder = tmp_path_factory.mktemp("asked")
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
    assert list(answer) == ["schema_version", "kind", *documented("dpsim results")]
    assert (answer["points"], answer["done"]) == (16, 16)
    _, text, _ = dpsim("results", swept.folder, "--sql", sql, "--csv")
    header, *rows = csv.reader(io.StringIO(text))
    assert header == answer["columns"] == ["seed", "batch_per_gpu", "step_time_s", "error"]
    assert [float(row[2]) for row in rows] == [row["step_time_s"] for row in answer["rows"]]
    _, text, _ = dpsim("results", swept.folder, "--csv")
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
