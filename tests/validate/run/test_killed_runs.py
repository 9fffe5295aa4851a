"""A run that is killed with -9 leaves no namespace that the next start does not remove."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gone import soon

SCENARIO = str(Path(__file__).parents[3] / "scenarios" / "testbed" / "allreduce.yaml")
RUN = (sys.executable, "-c", "from dpsim.cli import main; main()", "validate", "run", SCENARIO)
FEW = ("--set", "testbed.hosts=2", "--set", "run.steps=3")
REAL = (*FEW, "--compute", "real")

pytestmark = [pytest.mark.testbed, pytest.mark.torch]


@pytest.fixture
def started(tmp_path):
    """Starts a run whose temporary files go to the test's folder."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    return lambda *options: subprocess.Popen(
        [*RUN, *options], env=environment, stdout=subprocess.DEVNULL
    )


def namespaces(pid):
    return list(Path("/run/netns").glob(f"dpsim-{pid}-*"))


def test_the_next_start_removes_what_a_killed_run_left(started):
    killed = started(*REAL)
    assert soon(lambda: len(namespaces(killed.pid)) == 3, 120)
    killed.kill()
    killed.wait()
    assert len(namespaces(killed.pid)) == 3
    assert started(*FEW).wait(120) == 0
    assert namespaces(killed.pid) == []


@pytest.mark.long
@pytest.mark.parametrize("options", [FEW, REAL], ids=["emulated", "real"])
def test_no_moment_of_a_kill_leaves_a_namespace(started, options):
    began = time.monotonic()
    assert started(*options).wait(300) == 0
    whole = time.monotonic() - began
    pids = []
    for _ in range(15):
        with started(*options) as killed:
            pids.append(killed.pid)
            time.sleep(random.random() * whole)
            killed.kill()
    assert started(*FEW).wait(300) == 0
    assert [name for pid in pids for name in namespaces(pid)] == []
