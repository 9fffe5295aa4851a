"""An independent oracle.

SimGrid (CM02 without TCP's corrections) on random topologies and flows with staggered starts.

All flows of a case have the same latency, because CM02 gives flows of unequal latency unequal
shares (inversely to it, as TCP does), where max-min fairness gives equal ones: with equal latencies
the two agree.
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dpsim.network import FluidNetwork
from dpsim.network.flows.fluid import FluidEnvironment
from dpsim.topology import Routes

PYTHON = "/usr/bin/python3"
CASES = 60


def case(seed):
    rng = np.random.default_rng(seed)
    links = int(rng.integers(1, 9))
    latency = float(rng.choice([0.0, 1e-3, 0.25]))
    flows = [
        {
            "links": rng.choice(
                links, int(rng.integers(1, min(links, 5) + 1)), replace=False
            ).tolist(),
            "nbytes": int(rng.integers(1, 10_000_000)),
            "start": float(rng.choice([0.0, rng.uniform(0, 5)])),
            "latency": latency,
        }
        for _ in range(int(rng.integers(1, 25)))
    ]
    return {"capacities": rng.uniform(1e5, 1e7, links).tolist(), "flows": flows}


def ours(case):
    env = FluidEnvironment()
    fluid = FluidNetwork(env, np.array(case["capacities"]))
    ends = [0.0] * len(case["flows"])

    def send(number, flow):
        yield env.timeout(flow["start"])
        routes = Routes(np.array([flow["links"]]), np.array([flow["latency"]]))
        fluid.send(routes, np.array([flow["nbytes"]]), lambda _: ends.__setitem__(number, env.now))

    for number, flow in enumerate(case["flows"]):
        env.process(send(number, flow))
    env.run()
    return ends


@pytest.fixture(scope="module")
def simgrid():
    """Finish times of all cases by SimGrid, in a process of its own."""
    there = (
        Path(PYTHON).exists()
        and not subprocess.run(
            [PYTHON, "-c", "import simgrid"], capture_output=True, check=False
        ).returncode
    )
    if not there:
        assert os.environ.get("CI") != "true", (
            "CI must have SimGrid: apt-get install python3-simgrid"
        )
        pytest.skip(
            "SimGrid is not installed for the system's Python (Debian: apt-get install "
            "python3-simgrid)"
        )
    script = Path(__file__).with_name("simgrid_oracle.py")
    cases = json.dumps([case(seed) for seed in range(CASES)])
    return json.loads(
        subprocess.run(
            [PYTHON, script], input=cases, capture_output=True, text=True, check=True
        ).stdout
    )


@pytest.mark.parametrize("seed", range(CASES))
def test_finish_times_agree(simgrid, seed):
    assert ours(case(seed)) == pytest.approx(simgrid[seed], rel=1e-6)
