"""Speed of runs by events: workers that meet, each a process."""

import pytest
from measuring import in_own_process

from dpsim.engine import run_scenario
from dpsim.scenario import load_scenario

pytestmark = pytest.mark.bench

QUICKSTART = "scenarios/quickstart.yaml"


def by_events(nodes):
    """The quickstart on so many nodes of 8 GPUs, 50 steps and 5 of warm-up, in buckets."""
    run_scenario(load_scenario(QUICKSTART, [f"cluster.nodes={nodes}", "run.engine=events"]))


@pytest.mark.parametrize(
    ("nodes", "limit"), [(4, 1), (32, 15), (128, 60)], ids=["quickstart", "256", "1024"]
)
def test_the_quickstart_by_events(measured, nodes, limit):
    """The interpreter's start and all imports are counted in memory, not in time."""
    taken, memory = in_own_process("test_events_speed", "by_events", nodes)
    measured(
        "quickstart by events", f"{8 * nodes} GPUs x 55 steps", taken, limit=limit, memory=memory
    )
