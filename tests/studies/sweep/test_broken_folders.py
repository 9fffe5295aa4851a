"""Folders that were torn or edited, workers that die, two at work: no row is lost or made up."""

import os
import pickle

import pytest
from tiny_sweeps import SWEEP

from dpsim import load_scenario
from dpsim.base.errors import DpsimError, FailedError
from dpsim.studies.sweep import journal, query
from dpsim.studies.sweep.compute import Workplace, compute
from dpsim.studies.sweep.execute import execute
from dpsim.studies.sweep.store import Store
from dpsim.studies.sweep.table import Table, connect, read_parquet, write_parquet


def test_a_broken_folder_is_said_to_be_one(swept, tmp_path):
    (tmp_path / "out" / "points.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(
        DpsimError, match=r"points\.parquet: must be what dpsim sweep wrote, but cannot be read"
    ):
        query(tmp_path / "out")


def test_a_column_of_a_type_that_no_table_has_is_said(tmp_path):
    """A spoiled file may have bytes where there was text."""
    path = tmp_path / "spoiled.parquet"
    with connect() as connection:
        connection.execute(f"copy (select 'a'::blob as key) to '{path}' (format parquet)")
    with pytest.raises(OSError, match=r"column key must be one of .*, not BLOB"):
        read_parquet(path)


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
