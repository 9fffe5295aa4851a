"""The matrix of backends: tried where it can be, documented elsewhere, and failures kept apart."""

import contextlib
import io
import json
import os
import runpy
import sys
from pathlib import Path
from unittest import mock

import pytest
from again import measured_again
from json_docs import section

from validate.backends.matrix import BACKENDS, DEVICES, OPERATIONS, documented
from validate.ranks.launch import RunFailed, launch, loopback

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def cells():
    """The rows of ``python -m validate backends --json``, by backend, device and operation."""
    message = io.StringIO()
    single = {name: text for name, text in os.environ.items() if name != "RANK"}
    with (
        mock.patch("sys.argv", ["validate", "backends", "--edition", "classic", "--json"]),
        mock.patch.dict(os.environ, single, clear=True),
        contextlib.redirect_stdout(message),
        pytest.raises(SystemExit) as ended,
    ):
        runpy.run_module("validate", run_name="__main__")
    assert not ended.value.code
    answer = json.loads(message.getvalue())
    assert list(answer) == ["schema_version", "kind", "edition", "documentation", "classic", "rows"]
    assert answer["edition"] == "classic"
    return {(row["backend"], row["device"], row["operation"]): row for row in answer["rows"]}


def test_there_is_a_cell_for_every_operation_of_every_backend_on_every_device(cells):
    assert list(cells) == [
        (backend, device, name) for backend in BACKENDS for device in DEVICES for name in OPERATIONS
    ]
    assert {row["verdict"] for row in cells.values()} <= {"works", "fails", "not tried"}


def test_gloo_works_on_the_cpu_for_every_operation(cells):
    assert {cells["gloo", "cpu", name]["verdict"] for name in OPERATIONS} == {"works"}


def test_what_is_not_tried_says_why_and_what_is_documented(cells):
    for (backend, device, operation), row in cells.items():
        assert (row["detail"] != "") == (row["verdict"] != "works")
        assert row["documented"] == documented(backend, device, operation)


# Torch 2.0's documentation: CPU and GPU of gloo, mpi and nccl.
LECTURE = """
    send           yes no  yes ?  no yes
    recv           yes no  yes ?  no yes
    broadcast      yes yes yes ?  no yes
    all_reduce     yes yes yes ?  no yes
    reduce         yes no  yes ?  no yes
    all_gather     yes no  yes ?  no yes
    gather         yes no  yes ?  no yes
    scatter        yes no  yes ?  no yes
    reduce_scatter no  no  no  no no yes
    all_to_all     no  no  yes ?  no yes
    barrier        yes no  yes ?  no yes
"""


def test_the_classic_edition_is_the_table_of_the_lecture(cells):
    columns = [(name, device) for name in ("gloo", "mpi", "nccl") for device in DEVICES]
    words = {"yes": "works", "no": "does not work", "?": "works where MPI was built for CUDA"}
    for line in LECTURE.split("\n")[1:-1]:
        operation, *marks = line.split()
        for (backend, device), mark in zip(columns, marks, strict=True):
            row = cells[backend, device, operation]
            assert row["said"] == row["classic"] == words[mark], (backend, device, operation)


def test_the_table_has_the_edition_and_what_differs(dpsim, monkeypatch):
    from validate.backends.matrix import Cell

    gathered = ("not tried", "no GPU", "works", "does not work")
    tried = [
        Cell("gloo", "cpu", "reduce_scatter", "works", "", "works", "does not work"),
        Cell("gloo", "cuda", "reduce_scatter", *gathered),
    ]
    monkeypatch.setattr("validate.backends.matrix.matrix", lambda *given: tried)
    monkeypatch.delenv("RANK", raising=False)
    for edition, marks in {
        "classic": ("no, today: yes, here: yes", "no, today: yes"),
        "today": ("yes, classic: no, here: yes", "yes, classic: no"),
    }.items():
        _, out, _ = dpsim("validate", "backends", "--edition", edition)
        (row,) = (line for line in out.splitlines() if "reduce_scatter" in line)
        assert tuple(cell.strip() for cell in row.split("│")[1:]) == marks


def test_another_edition_is_refused(dpsim):
    code, _, err = dpsim("validate", "backends", "--edition", "old")
    assert code == 2
    assert "must be a known edition, but got 'old'" in err


def test_keys_are_documented(cells):
    text = section("dpsim validate backends")
    assert all(f"`{key}`" in text for key in next(iter(cells.values())))


def test_a_failure_affects_only_its_operation():
    """One rank late, one that fails, one that gets nothing, one that dies; the operations in
    between work.
    """
    program = str(Path(__file__).parent / "failing_cells.py")
    names = [
        "send",
        "reduce",
        "recv",
        "gather",
        "broadcast",
        "scatter",
        "barrier",
        "all_to_all",
        "all_reduce",
    ]

    def measure(limit):
        with pytest.raises(RunFailed) as failed:
            launch(
                [sys.executable, program, "gloo", "cpu", str(limit), *names],
                loopback(2),
                timeout_s=60,
                preload=["validate.collectives"],
            )
        return limit, failed.value

    def check(found):
        limit, failed = found
        assert "no more" in str(failed)
        rows = failed.run.rows
        assert [row["operation"] for row in rows] == names[:-2] * 2  # of both, until one died
        problems = {row["operation"]: row["problem"] for row in rows}
        works = {name for name, problem in problems.items() if not problem}
        assert works == {"send", "recv", "broadcast", "barrier"}
        assert f"Timed out waiting {1000 * limit:.0f}ms" in problems["reduce"]
        assert problems["gather"] == "NotImplementedError: Not here"
        assert problems["scatter"] == "RuntimeError: 1000 of 1000 values were wrong"

    # Where other work holds ranks up, what works takes longer than the first of them.
    measured_again(check, measure, 0.3, 2.0, 8.0)


def test_a_single_rank_is_refused(dpsim, monkeypatch):
    place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    for name, text in place.items():
        monkeypatch.setenv(name, text)
    code, _, err = dpsim("validate", "backends")
    assert code == 2
    assert "must be tried by at least 2 ranks, but got 1" in err
