"""Speed and memory against their limits: the large ring, the large training job, and a first prediction from cold."""

import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from dpsim import load_scenario, simulate
from dpsim.collectives import algorithm
from dpsim.network import RoundsModel
from dpsim.topology import UniformSwitch

pytestmark = pytest.mark.bench

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "scenarios" / "quickstart.yaml"
RATE, LATENCY, NBYTES = 50e9, 500e-9, 100_000_000
RANKS = (1024, 2048, 4096, 8192, 16_384)


@dataclass(frozen=True)
class UnequalSwitch(UniformSwitch):
    """A switch whose links are up to a tenth faster than ``rate``, each its own, so that no two ranks act alike."""

    @property
    def capacities(self):
        return self.rate * (1 + 0.1 * np.random.default_rng(1).random(2 * self.ranks))


def own_starts(ranks):
    """When each rank starts: an exponential draw of 1 ms on average."""
    return np.random.default_rng(0).exponential(1e-3, ranks)


def seconds(work, times):
    """The least of ``times`` runs: what the library needs, without what else the machine was doing."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def ring(network, *, collapse):
    """Library time of a ring from nothing: the schedule, the model and one all-reduce of 100 MB with own starts."""
    starts = own_starts(network.ranks)

    def work():
        RoundsModel(algorithm("ring").schedule(network.ranks), network, collapse=collapse).finish(starts, NBYTES)

    return seconds(work, times=5 if network.ranks < 4096 else 2)


@pytest.mark.parametrize(
    ("what", "switch", "collapse", "limits"),
    [
        ("equal links, collapsed", UniformSwitch, True, {1024: 0.01, 16_384: 0.05}),
        ("equal links, not collapsed", UniformSwitch, False, {1024: 0.1, 16_384: 4}),
        ("unequal links", UnequalSwitch, True, {1024: 0.1, 16_384: 4}),
    ],
)
def test_a_ring_of_100_mb_with_own_starts(measured, what, switch, collapse, limits):
    before = None
    for ranks in RANKS:
        taken = ring(switch(ranks, RATE, LATENCY), collapse=collapse)
        measured(f"ring of {ranks:,} ranks, {what}", taken, "s", limit=limits.get(ranks), before=before)
        before = taken


MEMORY = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import test_speed
test_speed.ring(test_speed.UnequalSwitch(16_384, test_speed.RATE, test_speed.LATENCY), collapse=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_the_memory_of_a_ring_of_16384_ranks(measured):
    # A process reports at least the peak of the one that forked it: a shell in between keeps this one's out of the figure.
    command = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", MEMORY, str(Path(__file__).parent)]
    peak = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured("ring of 16,384 ranks, whole process", int(peak) * 1024 / 1e6, "MB", limit=500)


def test_fifty_steps_of_resnet50_on_up_to_1024_gpus(measured):
    before = None
    for nodes in (16, 32, 64, 128):
        scenario = load_scenario(QUICKSTART, [f"cluster.nodes={nodes}", "run.steps=50"])
        assert scenario.strategy.overlap.kind == "buckets"
        assert scenario.disturbance.jitter is not None
        taken = seconds(lambda chosen=scenario: simulate(chosen), times=3 if nodes < 128 else 2)
        measured(f"50 steps of ResNet-50 on {8 * nodes:,} GPUs", taken, "s", limit=5 if nodes == 128 else None, before=before)
        before = taken


def test_a_first_prediction_from_cold(measured):
    command = [Path(sys.executable).with_name("dpsim"), "run", QUICKSTART]
    taken = []
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        taken.append(time.perf_counter() - begin)
    measured("dpsim run scenarios/quickstart.yaml", statistics.median(taken), "s", limit=1.5)
