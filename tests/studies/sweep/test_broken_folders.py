"""Folders that were torn or edited, workers that die, two at work: no row is lost or made up."""

import os
import pickle
from random import Random

import pytest
from tiny_sweeps import SWEEP

from dpsim import load_scenario, sweep
from dpsim.base.errors import DpsimError, FailedError
from dpsim.studies.sweep import query
from dpsim.studies.sweep.execute import execute
from dpsim.studies.sweep.store import Store, in_log


def test_a_folder_with_changed_points_is_reported(dpsim, swept, tmp_path):
    points = tmp_path / "out" / "points.parquet"
    content = points.read_bytes()
    points.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    with pytest.raises(
        DpsimError, match=r"points\.parquet: must be what dpsim sweep wrote, but has changed since"
    ):
        query(tmp_path / "out")
    assert dpsim("report", tmp_path / "out", "--html", tmp_path / "r.html")[0] == 2


def test_of_300_flipped_bits_each_is_named_and_computed_again(swept, write, tmp_path):
    """Whatever bit of the log is another: no row reads as other numbers."""
    out, random = tmp_path / "out", Random(0)
    log, before = out / "rows.log", (out / "results.parquet").read_bytes()
    content, rows = log.read_bytes(), query(out).rows
    for flipped in [len(content) - 1, *(random.randrange(len(content)) for _ in range(299))]:
        spoiled = bytearray(content)
        spoiled[flipped] ^= 1 << random.randrange(8)
        log.write_bytes(spoiled)
        answer = query(out)
        assert len(set(rows) - set(answer.rows)) in (1, 2)  # two where the line's end was hit
        assert set(answer.rows) < set(rows)
        number = content[:flipped].count(b"\n") + 1
        if flipped < len(content) - 1:  # else it is a line that was not written to its end
            assert f"rows.log: damaged rows are left out (line {number}" in answer.damage
    assert sweep(write(SWEEP), out, workers=1, resume=True).computed in (1, 2)
    assert (out / "results.parquet").read_bytes() == before
    assert query(out).damage is None


def test_a_damaged_row_is_narrated(dpsim, swept, write, tmp_path):
    log = tmp_path / "out" / "rows.log"
    log.write_bytes(log.read_bytes().replace(b"\n", b"\nnull\n", 1))
    output = f"note: {log}: damaged rows are left out (line 2); dpsim sweep --resume"
    assert dpsim("results", tmp_path / "out")[2].startswith(output)
    resume = ["sweep", write(SWEEP), "-o", tmp_path / "out", "--workers", 1, "--resume"]
    assert dpsim(*resume)[2].startswith(output)
    assert "damaged" not in dpsim(*resume)[2]


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
    with Store(tmp_path).open(resume=False) as store:
        store.add(in_log({"key": "a", "x": 0.1}))
        store.add(in_log({"key": "b", "x": 0.2}))
    content = store.log.read_bytes()
    for end in range(content.index(b"\n") + 1, len(content)):
        store.log.write_bytes(content[:end])
        with Store(tmp_path).open(resume=False) as cut:
            assert (cut.rows(), cut.damage) == ({"a": {"key": "a", "x": 0.1}}, None)
            cut.add(in_log({"key": "b", "x": 0.2}))
        assert store.log.read_bytes() == content


def test_an_unforeseen_error_is_a_row_that_is_tried_again(tmp_path):
    with Store(tmp_path / "out").open(resume=False) as store:
        assert list(execute({"k": b"no pickle"}, store, 1, None)) == ["k"]
        row = store.rows()["k"]
        assert row["error"].startswith("failed: UnpicklingError")
        assert row["retry"]


def test_workers_that_die_before_they_begin_end_the_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr("dpsim.studies.sweep.execute.end_with", die)
    with (
        Store(tmp_path / "out").open(resume=False) as store,
        pytest.raises(FailedError, match="workers die before they begin"),
    ):
        list(execute({"a": b"", "b": b""}, store, 2, None))


def die(parent):
    os._exit(1)


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
        done = set(execute(contents, store, 2, None))
        rows = store.rows()
        assert done == contents.keys() == rows.keys()
    assert [key for key, row in rows.items() if row["error"]] == ["k2"]
    assert "its worker process was killed" in rows["k2"]["error"]
    assert rows["k2"]["retry"]
