"""The ring is the same one in every tool."""

import subprocess
import sys

import pytest

from tools.peers.by_dpsim import finish
from tools.peers.by_simpy import Ring


@pytest.mark.parametrize("ranks", [2, 7, 16])
def test_naive_simpy_agrees(ranks):
    # Ranks that divide the elements: else a chunk more in a round is no waiting of all.
    ring = ranks, ranks * 4_000_000, 50e9, 500e-9
    assert Ring(*ring).finish() == pytest.approx(finish(*ring), rel=1e-9)


def test_a_line_for_each():
    command = [sys.executable, "-m", "tools.peers", "--ranks", "4", "--megabytes", "1"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert lines[0].startswith("ring of 4 ranks, 1 MB")
    assert [line.split()[0].rstrip(",") for line in lines[1:]] == ["dpsim", "SimGrid", "SimPy"]
    finishes = {line.split("finishes at ")[1] for line in lines[1:] if "finishes" in line}
    assert len(finishes) == 1
