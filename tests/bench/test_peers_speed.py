"""One ring by SimGrid's C++ and by dpsim's flows: each message of it, and the same end."""

import shutil
import subprocess
from pathlib import Path

import pytest
from measuring import seconds

from dpsim.network import named_model
from dpsim.topology import UniformSwitch

pytestmark = pytest.mark.bench

SOURCE = Path(__file__).with_name("ring_by_simgrid.cpp")
RANKS, NBYTES, RATE, LATENCY = 256, 102_400_000, 50e9, 500e-9


def test_a_ring_of_messages(measured, tmp_path):
    compiler = shutil.which("c++")
    program = tmp_path / "ring"
    command = [str(compiler), "-O2", "-std=c++17", "-o", program, SOURCE, "-lsimgrid"]
    if not compiler or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("SimGrid's C++ is not installed: apt-get install g++ libsimgrid-dev")
    found = []

    def by_simgrid():
        ring = [str(each) for each in (RANKS, NBYTES, RATE, LATENCY)]
        ran = subprocess.run([program, *ring], check=True, capture_output=True, text=True)
        found.append(float(ran.stdout))

    def by_dpsim():
        model = named_model("flows", "ring", UniformSwitch(RANKS, RATE, LATENCY))
        found.append(model.seconds_from_common_start(NBYTES))

    peer = seconds(by_simgrid, times=3, children=True)
    own = seconds(by_dpsim, times=3)
    assert found == pytest.approx([found[0]] * 6, rel=1e-9)
    measured("ring by messages, 100 MB, by SimGrid in C++", f"{RANKS} ranks", peer)
    measured("the same by dpsim's flows", f"{RANKS} ranks", own)
    assert own < peer
