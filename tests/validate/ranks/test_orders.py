"""Ranks for one order after another, in the processes that a launcher started."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from validate.ranks.launch import launch, loopback

pytestmark = pytest.mark.torch

PROCESS = str(Path(__file__).with_name("launcher_process.py"))


@pytest.fixture(scope="module")
def message(tmp_path_factory):
    folder = tmp_path_factory.mktemp("orders")
    # Three processes, as torchrun starts them: they are no ranks themselves.
    run = launch(
        [sys.executable, PROCESS, str(folder)], loopback(3), timeout_s=200, preload=["torch"]
    )
    assert [rank.returncode for rank in run.ranks] == [0, 0, 0]
    found = {file.name: json.loads(file.read_text()) for file in folder.iterdir()}
    return found.pop("said") | found


def test_all_processes_start_the_rank_of_their_place(message):
    assert (message["most"], message["a"]) == (3, "done")
    assert message["met-a"] == [[0, 3], [1, 3], [2, 3]]


def test_one_rank_s_failure_ends_the_order_on_all_and_says_which(message):
    assert message["b"].startswith("rank 2 on ")
    assert message["b"].endswith(": RuntimeError: this rank has had enough")
    # Not after the 60 s that ranks wait for one another.
    assert message["b_s"] < 30


def test_the_next_order_follows_also_by_fewer_ranks(message):
    assert message["c"] == "done"
    assert message["met-c"] == [[0, 2], [1, 2]]


def test_an_order_that_rank_0_ends_is_over_everywhere(message):
    assert message["d"] == "it hangs"
    assert message["d_s"] < 30
