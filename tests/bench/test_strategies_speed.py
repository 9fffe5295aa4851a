"""Speed of whole jobs: 1,024 workers that act alone at 16 parameter servers, and 16,384 that act together."""

import time
from pathlib import Path

import pytest

from dpsim import load_scenario, simulate
from dpsim.engine.job import prepare

pytestmark = pytest.mark.bench

QUICKSTART = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"
OWN_SERVERS = "strategy.aggregation={kind: parameter-server, servers: 16, colocated: false}"
HIERARCHICAL = "strategy.aggregation={kind: allreduce, algorithm: hierarchical}"


def job(nodes, *overrides):
    """The quickstart, its jitter included, on other nodes of 8 GPUs; 20 iterations a worker."""
    return load_scenario(QUICKSTART, [f"cluster.nodes={nodes}", "run.steps=20", "run.warmup=0", *overrides])


def seconds_of_this_core(scenario):
    begin = time.process_time()
    result = simulate(scenario)
    return time.process_time() - begin, result


@pytest.mark.parametrize(("overlap", "limit"), [("sequential", 20), ("buckets", None)], ids=["one-push", "five-pushes"])
@pytest.mark.parametrize("sync", ["asp", "ssp"])
def test_1024_workers_at_16_servers(measured, sync, overlap, limit):
    scenario = job(128, OWN_SERVERS, f"strategy.sync.kind={sync}", f"strategy.overlap={{kind: {overlap}}}")
    taken, result = seconds_of_this_core(scenario)
    assert result.alone
    assert result.steps.step.shape == (20, 1024)
    pushes = len([message for message in prepare(scenario).messages(0) if message.stages])
    measured(f"{sync}, 1,024 workers, 16 servers, pushes a step {pushes}: 20 iterations", taken, "s", limit=limit)


def test_16384_workers_in_step(measured):
    before = None
    for nodes in (256, 512, 1024, 2048):
        scenario = job(nodes, HIERARCHICAL)
        assert scenario.strategy.overlap.kind == "buckets"
        assert scenario.disturbance.jitter is not None
        taken, result = seconds_of_this_core(scenario)
        assert result.steps.step.shape == (20, 8 * nodes)
        what = f"bsp, {8 * nodes:,} workers, hierarchical, buckets: 20 steps"
        measured(what, taken, "s", limit=20 if nodes == 2048 else None, before=before)
        before = taken
