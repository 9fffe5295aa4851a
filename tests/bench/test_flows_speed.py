"""Speed where flows are solved event by event: servers, pairs, and collectives as messages."""

import numpy as np
import pytest
from measuring import Growth, in_own_process, seconds
from test_speed import QUICKSTART, own_starts

from dpsim import load_scenario
from dpsim.engine import run_scenario
from dpsim.network import named_model
from dpsim.topology import UniformSwitch

pytestmark = pytest.mark.bench

INDEPENDENT = "strategy.sync.kind=asp"
SERVERS = "strategy.aggregation.kind=parameter-server"
PAIRS = "strategy.aggregation.kind=gossip"


def run(nodes, steps, warmup, *overrides):
    """The quickstart on so many nodes of 8 GPUs."""
    sizes = [f"cluster.nodes={nodes}", f"run.steps={steps}", f"run.warmup={warmup}"]
    # So many steps and no more: whether few of them have settled is chance at some sizes.
    done = run_scenario(load_scenario(QUICKSTART, [*sizes, *overrides]), settle=False).result
    assert done.steps.step.shape == (steps, 8 * nodes)


def rows(nodes, *arguments):
    """Seconds and MB by workers."""
    return {
        8 * count: in_own_process("test_flows_speed", "run", count, *arguments) for count in nodes
    }


def test_servers_of_independent_workers(measured):
    by_workers = rows((16, 32, 64, 128), 20, 5, SERVERS, INDEPENDENT)
    growth = Growth.of_processes("workers", by_workers)
    taken, memory = by_workers[1024]
    measured(
        "asynchronous servers of the quickstart, 20 + 5 steps",
        "1,024 workers",
        taken,
        limit=20,
        memory=memory,
        memory_limit=500,
        growth=growth,
    )


def test_servers_of_workers_in_step(measured):
    by_workers = rows((32, 64, 128), 3, 0, SERVERS)
    growth = Growth.of_processes("workers", by_workers)
    taken, memory = by_workers[1024]
    measured("servers, BSP, 3 steps", "1,024 workers", taken, limit=5, memory=memory, growth=growth)


def test_independent_pairs(measured):
    by_workers = rows((32, 64, 128), 20, 5, PAIRS, INDEPENDENT)
    growth = Growth.of_processes("workers", by_workers)
    taken, _ = by_workers[1024]
    measured("AD-PSGD, 20 + 5 steps", "1,024 workers", taken, limit=5, growth=growth)


def ring(ranks, spread):
    """A ring of 100 MB by flows, all ranks at once or each at a time of its own."""
    network = UniformSwitch(ranks, 50e9, 500e-9)
    starts = own_starts(ranks) * spread
    named_model("flows", "ring", network).finish(np.asarray(starts), 100_000_000)


@pytest.mark.parametrize(("spread", "which"), [(0, "at once"), (1, "own starts")])
def test_a_ring_by_flows(measured, spread, which):
    by_ranks = {
        ranks: seconds(lambda count=ranks: ring(count, spread), times=2)
        for ranks in (128, 256, 512)
    }
    growth = Growth("ranks", by_ranks)
    what = f"ring by flows, 100 MB, {which}"
    measured(what, "256 ranks", by_ranks[256], limit=0.5, growth=growth)


@pytest.mark.parametrize(("nodes", "limit"), [(32, 4), (128, 25)])
def test_a_step_by_flows_on_a_leaf_spine(measured, nodes, limit):
    leaf_spine = "cluster.network={fabric: leaf-spine, nic: 25GbE, oversubscription: 4}"
    taken, memory = in_own_process(
        "test_flows_speed", "run", nodes, 1, 0, leaf_spine, "run.network_model=flows"
    )
    what = "flows, leaf-spine 4:1, one bucketed step"
    measured(what, f"{8 * nodes:,} GPUs", taken, limit=limit, memory=memory)
