"""A tiny scenario on a hand-made machine, whose times can be worked out on paper."""

import pytest

from dpsim.scenario import Scenario


@pytest.fixture
def scenario():
    """Two one-GPU nodes; ``changes`` replace whole sections."""

    def build(**changes):
        content = {
            "name": "tiny",
            "cluster": {
                "nodes": 2,
                "node": "single-gpu",
                "network": {"fabric": "single-switch", "nic": "25GbE", "nics_per_node": 1},
            },
            "workload": {"model": "alexnet", "batch_per_gpu": 16},
            "strategy": {
                "aggregation": {"kind": "allreduce", "library": "ideal"},
                "overlap": {"kind": "sequential"},
            },
            "run": {"steps": 3, "warmup": 0},
        }
        return Scenario.model_validate({**content, **changes})

    return build
