"""The chain of what a step waits for, worked out by hand on the tiny job (see
tests/engine/test_timeline.py), and its laws.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dpsim import load_scenario
from dpsim.engine import Recording
from dpsim.engine.run import run_scenario
from dpsim.engine.timeline import Interval
from dpsim.studies.explain import critical_path
from dpsim.studies.explain.critical_path import walk_back

SCENARIOS = Path(__file__).parents[3] / "scenarios"
SLOW = {"slow": [{"workers": [1], "factor": 2}]}


def found(scenario, step=0):
    return [
        (each.name, each.worker, each.start_s, each.seconds)
        for each in critical_path(run_scenario(scenario, Recording(None)), step).segments
    ]


def assert_path(scenario, expected, step=0):
    for got, wanted in zip(found(scenario, step), expected, strict=True):
        assert got[:2] == wanted[:2]
        assert got[2:] == pytest.approx(wanted[2:], abs=1e-6)


def test_only_the_last_gradient_is_on_the_path(tiny):
    """Layer 1's all-reduce, from 7 to 8, hides behind the rest of the backward pass."""
    expected = [
        ("forward", 0, 0, 3),
        ("backward", 0, 3, 7),
        ("tensor0: all-reduce", 0, 10, 1),
        ("update", 0, 11, 0.5),
    ]
    assert_path(tiny(overlap="wfbp"), expected)


def test_the_slow_worker_is_on_the_path(tiny):
    expected = [
        ("forward", 1, 0, 6),
        ("backward", 1, 6, 14),
        ("all: all-reduce", 1, 20, 2),
        ("update", 1, 22, 1),
    ]
    assert_path(tiny(disturbance=SLOW), expected)


def test_a_wait_for_a_server_is_on_the_path_of_a_single_worker(tiny):
    """Pushed at 12, applied at 13, pulled at 15: the second between is the server's."""
    server = {"kind": "parameter-server", "servers": 1, "colocated": False, "update_rate": "2 MB/s"}
    scenario = tiny(1, aggregation=server, sync="ssp")
    expected = [
        ("forward", 0, 0, 3),
        ("backward", 0, 3, 7),
        ("all: push", 0, 10, 2),
        ("waiting", 0, 12, 1),
        ("pull", 0, 13, 2),
    ]
    assert_path(scenario, expected)


@pytest.mark.parametrize(
    "file", ["quickstart", "priority", "top-k", "local-sgd", "ssp", "ad-psgd", "backup"]
)
def test_a_path_has_no_gaps_and_is_a_step_long(file):
    scenario = load_scenario(SCENARIOS / f"{file}.yaml", ["run.steps=4", "run.warmup=1"])
    run = run_scenario(scenario, Recording(steps=1, first=2), settle=False)
    path, steps = critical_path(run, 2), run.all_steps
    for one, following in pairwise(path.segments):
        assert following.start_s == pytest.approx(one.start_s + one.seconds, abs=1e-9)
    assert sum(path.by_kind.values()) == pytest.approx(path.seconds)
    ends = steps.step[:4].sum(axis=0)
    begin = (ends - steps.step[3]).min()
    last = path.segments[-1]
    assert begin + last.start_s + last.seconds == pytest.approx(ends[path.worker])
    first = path.segments[0]
    assert begin + first.start_s == pytest.approx((ends - steps.step[3])[first.worker], abs=1e-8)


def test_the_path_goes_over_to_the_worker_that_a_collective_waits_for():
    """Worker 1 ends last, since its update is the longer one, but worker 0 waited for input and was
    the last to enter.
    """
    intervals = [
        Interval(0, "communication", "all", 15, 17),
        Interval(0, "compute", "forward", 5, 15),
        Interval(0, "compute", "update", 17, 17.5),
        Interval(0, "input", "next batch", 0, 5),
        Interval(1, "communication", "all", 12, 17),
        Interval(1, "compute", "forward", 0, 12),
        Interval(1, "compute", "update", 17, 17.6),
    ]
    path = walk_back(intervals, np.zeros(2), 17.6, 1, 1e-9, is_collective=True)
    assert [(each.kind, each.worker) for each in path] == [
        ("input", 0),
        ("compute", 0),
        ("communication", 0),
        ("compute", 1),
    ]
    assert [each.seconds for each in path] == pytest.approx([5, 10, 2, 0.6])
