"""Cards that a cloud lends more than they sustain: what counts, and what the answer warns of."""

import pytest

from dpsim import Scenario, simulate


def answer(**cluster):
    scenario = {
        "name": "lent",
        "cluster": {"nodes": 4, "node": "g4dn.xlarge", **cluster},
        "workload": {"model": "resnet50", "batch_per_gpu": 32},
        "run": {"steps": 2, "warmup": 0},
    }
    return simulate(Scenario.model_validate(scenario))


def test_the_sustained_rate_counts_and_is_warned_of():
    result = answer()
    assert result.warnings[0] == (
        "25 Gbit/s of aws-g4dn-xlarge is a burst rate; sustained is 5 Gbit/s, which counts here"
    )
    assert result.to_json()["warnings"] == result.warnings
    slow = answer(network={"fabric": "single-switch", "nic": "1GbE"})
    assert slow.step_time_s["mean"] > result.step_time_s["mean"]


def test_a_burst_rate_gives_a_warning_with_the_sustained_rate():
    lent = answer(network={"fabric": "single-switch", "nic": "25GbE"})
    assert lent.warnings[0] == (
        "25 Gbit/s is a burst rate of aws-g4dn-xlarge; sustained is 5 Gbit/s"
    )
    assert lent.step_time_s["mean"] < 0.8 * answer().step_time_s["mean"]


@pytest.mark.parametrize("cluster", [{"nodes": 1}, {"node": "aws-g4dn"}])
def test_nobody_else_is_warned(cluster):
    assert not [text for text in answer(**cluster).warnings if "burst" in text]
