"""Strategies beside one another compute alike; SSP's window holds what it promises."""

import json
from pathlib import Path

import pytest

from dpsim import load_scenario
from dpsim.studies.lanes import OVERLAPPED, SHARDED, SYNCHRONISED, lane, windows

QUICKSTART = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"
FOUR = (
    "cluster.nodes=4",
    "cluster.gpus_per_node=1",
    "run.steps=6",
    "run.warmup=0",
    "disturbance={jitter: {kind: lognormal, sigma: 0.1}, slow: [{workers: [3], factor: 2}]}",
)
SSP = SYNCHRONISED["SSP, at most 2 ahead"]


def scenario(strategy, *more):
    return load_scenario(QUICKSTART, [*FOUR, f"strategy={json.dumps(strategy)}", *more])


def passes(shown):
    """Seconds of forward and backward passes of each (step, worker)."""
    spent = {}
    for step, intervals in enumerate(shown.steps):
        for each in intervals:
            if each.stream == "compute" and each.name.startswith(("forward", "backward")):
                key = step, each.worker
                spent[key] = spent.get(key, 0.0) + each.end - each.start
    return spent


@pytest.mark.parametrize("name", [*SYNCHRONISED, *OVERLAPPED])
def test_all_compute_alike(name):
    first = passes(lane("BSP", scenario(SYNCHRONISED["BSP"])))
    other = passes(lane(name, scenario({**SYNCHRONISED, **OVERLAPPED}[name])))
    assert len(first) == 24
    # What is communicated beside a pass takes a little of the GPU's memory from it.
    assert other == pytest.approx(first, rel=0.02)


def test_fsdp_gathers_and_scatters():
    names = {each.name for step in lane("", scenario(SHARDED["FSDP"])).steps for each in step}
    operations = {name.rpartition(": ")[2] for name in names}
    assert {"all-gather", "reduce-scatter"} <= operations
    assert "all-reduce" not in operations


def test_the_window_of_a_fast_worker():
    found = windows(scenario(SSP), worker=0)[5]
    assert found.staleness == 2
    for worker, row in enumerate(found.seen):
        assert {*row[: 5 - 2]} == {"own" if worker == 0 else "guaranteed"}
    assert found.seen[0] == ("own",) * 5
    assert "not yet" in found.seen[3], "the slow worker is behind"
    assert {each for row in found.seen for each in row} >= {"in the window", "not yet"}


def test_under_bsp_there_is_no_window():
    found = windows(scenario({**SSP, "sync": {"kind": "ssp", "staleness": 0}}), worker=1)[3]
    assert {each for row in found.seen for each in row[:3]} == {"own", "guaranteed"}


def test_there_is_one_for_each_step_from_the_first_on():
    given = scenario(SSP)
    clocks = [each.clock for each in windows(given, worker=3)]
    assert clocks == [*range(len(clocks))]
    assert len(clocks) >= given.run.steps
