"""Speed of replays: 64 workers, 500 iterations each, of the perceptron."""

import time
from pathlib import Path

import pytest

from dpsim import load_scenario
from dpsim.studies.replay import replay

pytestmark = pytest.mark.bench

QUICKSTART = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"
GOSSIP = "strategy.aggregation={kind: gossip}"
SERVERS = "strategy.aggregation={kind: parameter-server}"
STRATEGIES = {
    "bsp": [],
    "ssp": ["strategy.sync.kind=ssp"],
    "local-sgd": ["strategy.sync.kind=local-sgd"],
    "sma": ["strategy.sync.kind=sma"],
    "gossip": [GOSSIP],
    "ad-psgd": [GOSSIP, "strategy.sync.kind=asp"],
    "asp at servers, sequential": [
        SERVERS,
        "strategy.sync.kind=asp",
        "strategy.overlap={kind: sequential}",
    ],
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_64_workers_500_iterations(measured, name):
    scenario = load_scenario(QUICKSTART, ["cluster.nodes=8", "replay.steps=500", *STRATEGIES[name]])
    begin = time.process_time()
    result = replay(scenario)
    taken = time.process_time() - begin
    assert result.workers == 64
    assert result.curve.points[-1].accuracy > 0.9
    measured(f"replay of {name}, perceptron", "64 workers, 500 iterations", taken, limit=30)
