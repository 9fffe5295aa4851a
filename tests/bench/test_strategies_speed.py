"""Speed of whole jobs of 1,024 independent workers at 16 parameter servers."""

import time
from pathlib import Path

import pytest
from measuring import Growth

from dpsim import load_scenario, simulate
from dpsim.engine.preparation import prepare

pytestmark = pytest.mark.bench

QUICKSTART = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"
OWN_SERVERS = "strategy.aggregation={kind: parameter-server, servers: 16, colocated: false}"


def job(sync, overlap, steps):
    """The quickstart, its jitter included, on 128 nodes of 8 GPUs."""
    strategy = [OWN_SERVERS, f"strategy.sync.kind={sync}", f"strategy.overlap={{kind: {overlap}}}"]
    return load_scenario(
        QUICKSTART, ["cluster.nodes=128", f"run.steps={steps}", "run.warmup=0", *strategy]
    )


def seconds_of_this_core(scenario):
    begin = time.process_time()
    result = simulate(scenario)
    taken = time.process_time() - begin
    assert result.independent_workers
    assert result.steps.step.shape == (scenario.run.steps, 1024)
    return taken


@pytest.mark.parametrize(("sync", "steps"), [("asp", (5, 10, 20)), ("ssp", (20,))])
def test_1024_workers_at_16_servers(measured, sync, steps):
    by_steps = {count: seconds_of_this_core(job(sync, "sequential", count)) for count in steps}
    growth = Growth("iterations", by_steps) if len(steps) > 1 else None
    measured(
        f"{sync}, 1,024 workers, 16 servers, one push each",
        "20 iterations",
        by_steps[20],
        limit=20,
        growth=growth,
    )


def test_1024_workers_that_push_buckets(measured):
    scenario = job("asp", "buckets", 5)
    pushes = len([call for call in prepare(scenario).calls(0) if call.stages])
    taken = seconds_of_this_core(scenario)
    measured(
        f"asp, 1,024 workers, 16 servers, {pushes} pushes each", "5 iterations", taken, limit=20
    )
