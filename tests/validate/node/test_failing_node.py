"""A node that fails as real ones do: each ends in one sentence, and what was measured is kept."""

import os
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from fake_cuda import stand_in

from validate.microbench.settings import Settings
from validate.node import plan_runner
from validate.node.items import Item
from validate.node.plan_runner import carry
from validate.node.rows import Rows
from validate.ranks.orders import OnThisMachine

pytestmark = pytest.mark.torch

HERE = Path(__file__).parent
SIZES = {"begin": 1024, "end": 16384, "factor": 4, "iterations": 1, "warmup": 0}


def item(name, ranks=2, **settings):
    reported = Settings(
        what=(settings.pop("what", "collectives"),), device="cuda", **SIZES, **settings
    )
    return Item(name=name, ranks=ranks, backend="nccl", seconds=2.0, settings=reported)


ITEMS = (item("first"), item("second", operations=("broadcast",)), item("third", what="products"))


@pytest.fixture
def node(monkeypatch, tmp_path):
    """Measures some items on a node that fails so, and says for how long that took."""
    stand_in(monkeypatch, uuids=("GPU-a", "GPU-b"))
    monkeypatch.setattr(plan_runner, "PROGRAM", (sys.executable, str(HERE / "failing_rank.py")))

    def measured(fails="9 none hang", items=ITEMS, minutes=2.0, most=None):
        orders = OnThisMachine()
        orders.most = most
        monkeypatch.setenv("DPSIM_FAILS", fails)
        rows = Rows(tmp_path / "node.rows.jsonl")
        began = time.monotonic()
        left = carry(
            items,
            rows,
            orders,
            device="cuda",
            minutes=minutes,
            progress=lambda *reported: measured.shown.append(reported),
        )
        return rows, [each.name for each in left], time.monotonic() - began

    measured.shown = []
    return measured


def patience_s():
    """30 s; longer, but less than any time-out, where other programs want the processors, too."""
    return min(30 * max(os.getloadavg()[0] / os.cpu_count(), 1), 200)


FAILURES = {
    "0 second die": "rank 0 on HOST was killed by SIGKILL after",
    "1 second die": "rank 1 on HOST was killed by SIGKILL after",
    "1 second nccl": "RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.cpp:94, "
    "unhandled system error (Call to ibv_modify_qp failed with error Connection timed out)",
    "0 second full": "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
}


@pytest.mark.parametrize("fails", FAILURES)
def test_a_failing_rank_ends_only_its_item_with_a_one_line_error(node, fails, capsys):
    rows, left, seconds = node(fails)
    assert left == ["second"]
    assert [(each.name, each.ended) for each in rows.attempts] == [
        ("first", "done"),
        ("second", "failed"),
        ("third", "done"),
    ]
    why = rows.attempts[1].why
    assert FAILURES[fails].replace("HOST", os.uname().nodename) in why
    assert "\n" not in why
    assert f"second: {why}" in capsys.readouterr().err
    # What was measured until then stays, and nobody waited for a time-out.
    assert len(rows.attempts[1].rows) >= 2
    assert seconds < patience_s()


def test_a_second_call_measures_only_what_is_missing(node):
    node("1 second die")
    rows, left, _ = node()
    assert left == []
    assert [(each.name, each.ended) for each in rows.attempts[3:]] == [("second", "done")]
    _, left, seconds = node("0 first die")
    assert left == []
    assert seconds < 1  # no rank was started


def test_what_a_launcher_has_too_few_ranks_for_is_not_waited_for(node, capsys):
    few = (item("single", ranks=1, what="products"), ITEMS[0])
    rows, left, seconds = node(items=few, most=1)
    assert [(each.name, each.ended) for each in rows.attempts] == [("single", "done")]
    assert left == []
    assert "not by the 1 ranks of the launcher, which are too few: first" in capsys.readouterr().err
    assert seconds < patience_s()


def test_an_item_that_hangs_is_cut_off(node, monkeypatch):
    monkeypatch.setattr(plan_runner, "_LEAST_S", 4.0)
    monkeypatch.setattr(plan_runner, "_TIMEOUT_FACTOR", 2.0)
    rows, left, seconds = node("1 second hang")
    assert left == ["second"]
    assert (rows.attempts[1].ended, rows.attempts[1].why) == (
        "cut",
        "it had not ended after 4 s",
    )
    assert rows.attempts[2].ended == "done"
    assert seconds < patience_s()
    # Who waits knows for what: the second of three.
    assert ("second", 1, 3) in node.shown


def test_an_item_that_was_cut_off_is_tried_again_after_all_others(node, monkeypatch):
    monkeypatch.setattr(plan_runner, "_LEAST_S", 4.0)
    monkeypatch.setattr(plan_runner, "_TIMEOUT_FACTOR", 2.0)
    node("1 first hang", items=ITEMS[:1])
    rows, left, _ = node()
    assert left == []
    assert [each.name for each in rows.attempts] == ["first", "second", "third", "first"]


def test_each_call_gives_an_item_that_was_cut_off_twice_the_time(node, monkeypatch):
    monkeypatch.setattr(plan_runner, "_LEAST_S", 3.0)
    monkeypatch.setattr(plan_runner, "_TIMEOUT_FACTOR", 1.0)
    for _ in range(2):
        rows, _, _ = node("1 first hang", items=ITEMS[:1])
    assert [each.why for each in rows.attempts] == [
        "it had not ended after 3 s",
        "it had not ended after 6 s",
    ]


def test_a_single_rank_continues_after_its_memory_was_full(node):
    single = [
        each.model_copy(update={"ranks": 1}) for each in (item("a", what="products"), ITEMS[2])
    ]
    rows, left, _ = node("0 a full", items=single)
    assert left == ["a"]
    assert [each.why for each in rows.attempts] == [
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "",
    ]
    assert rows.world["ranks"][0]["pid"]  # the same process measured both


def test_ranks_that_cannot_start_are_no_reason_to_try_for_ever(node, monkeypatch):
    monkeypatch.setattr(plan_runner, "PROGRAM", (sys.executable, "-m", "not.there"))
    rows, left, seconds = node()
    assert left == ["first", "second", "third"]
    assert {each.ended for each in rows.attempts} == {"failed"}
    assert "exited with code 1" in rows.attempts[0].why
    assert "No module named 'not'" in rows.attempts[0].why
    assert seconds < 10
