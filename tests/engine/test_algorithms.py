"""Algorithms that are chosen or carried out by a model, from scenario and command to result."""

import pytest

from dpsim.base.errors import DpsimError
from dpsim.engine import simulate
from dpsim.studies.collective import collective_rows
from dpsim.topology import UniformSwitch


def with_algorithm(name):
    return {
        "strategy": {
            "aggregation": {"kind": "allreduce", "algorithm": name, "library": "ideal"},
            "overlap": {"kind": "sequential"},
        }
    }


def test_a_result_names_what_auto_chose(scenario):
    result = simulate(scenario(**with_algorithm("auto"))).to_json()
    assert result["algorithms"]
    assert "auto" not in result["algorithms"]
    fixed = [
        simulate(scenario(**with_algorithm(name))).step_time_s["mean"]
        for name in result["algorithms"]
    ]
    assert result["step_time_s"]["mean"] <= min(fixed) * (1 + 1e-12)


def test_in_network_needs_switches_that_reduce(scenario):
    with pytest.raises(DpsimError, match="switches that reduce"):
        simulate(scenario(**with_algorithm("in-network")))
    network = {
        "fabric": "single-switch",
        "nic": "25GbE",
        "nics_per_node": 1,
        "in_network_reduction": True,
    }
    cluster = {"nodes": 2, "node": "single-gpu", "network": network}
    assert simulate(scenario(cluster=cluster, **with_algorithm("in-network"))).to_json()[
        "algorithms"
    ] == ["in-network"]


def test_rows_have_the_requested_and_the_used_algorithm():
    rows = list(collective_rows(UniformSwitch(8, 50e9, 1e-6), ["auto", "ring"], [4, 2**30]))
    assert [(row.algorithm, row.used) for row in rows] == [
        ("auto", "all-to-all"), ("auto", "halving-doubling"), ("ring", "ring"), ("ring", "ring"),
    ]  # fmt: skip
    assert rows[0].bytes_sent_busiest == 7 * 4
