"""How far a step may be off: what is drawn, and what it rests on."""

import numpy as np
import pytest

from dpsim import load_scenario, simulate
from dpsim.engine import collective_interval, nccl_doubt
from dpsim.engine.intervals import Doubt, _mixed, _of_nccl
from dpsim.hardware import nodes
from dpsim.topology import ClusterConfig, build_cluster

QUICKSTART = "scenarios/quickstart.yaml"
FEW = ["run.steps=4", "run.warmup=0"]


def interval(*overrides, file=QUICKSTART):
    return simulate(load_scenario(file, [*FEW, *overrides])).interval


def test_the_step_lies_inside_and_the_answer_says_on_what_it_rests():
    result = simulate(load_scenario(QUICKSTART, FEW))
    found = result.interval
    assert found.low < result.step_time_s["mean"] < found.high
    assert found.confidence == 0.9
    assert "each left out" in found.basis
    assert result.to_json()["interval_s"] == found.to_json()


def test_what_was_measured_has_no_error_of_computing():
    one_gpu = ["cluster.nodes=1", "cluster.gpus_per_node=1"]
    measured = interval(*one_gpu, "calibration={step_time: 300 ms, source: test}")
    assert measured.low == pytest.approx(0.3)
    assert measured.high == pytest.approx(0.3)
    assert measured.basis == "computing as in your measured step"
    assert interval(*one_gpu).high > 1.05 * interval(*one_gpu).low


def test_a_gpu_unlike_all_that_were_measured_is_extrapolated_and_less_sure():
    known = interval("cluster.node=dgx-a100", "cluster.network.nics_per_node=8")
    other = interval("cluster.node=dgx-b200", "cluster.network.nics_per_node=8")
    assert any("no blackwell GPU was measured" in each for each in other.extrapolated)
    assert not any("GPU was measured" in each for each in known.extrapolated)
    assert "its GPU's generation too" in other.basis


def test_hidden_communication_counts_only_as_far_as_it_may_come_out():
    """With fast links all is hidden, and errors of communication hardly matter."""
    computing = interval("calibration={step_time: 300 ms, source: test}")
    slow = interval("calibration={step_time: 600 ms, source: test}", "cluster.network.nic=10GbE")
    assert computing.high / computing.low < slow.high / slow.low


def test_collectives_of_machines_that_were_measured_are_surer():
    h100 = build_cluster(ClusterConfig(nodes=1, node=nodes()["dgx-h100"]))
    found = collective_interval(h100, "nccl", "all-reduce", 2**30, 1.0)
    assert 0.7 < found.low < 1 < found.high < 1.6
    assert found.extrapolated == ()
    ideal = collective_interval(h100, "ideal", "all-reduce", 2**30, 1.0)
    assert ideal.high / ideal.low > found.high / found.low
    assert ideal.extrapolated


def test_a_generation_of_one_machine_is_extrapolated():
    doubt = nccl_doubt("tcp", False, "all_reduce", "from 1 MiB")
    assert doubt.extrapolated == ("of tcp one machine was measured",)
    assert nccl_doubt("roce", False, "all_reduce", "from 1 MiB").extrapolated == ()


def test_a_family_of_few_machines_borrows_more_from_all():
    narrow, wide = [[scale * level for level in (-5, -3, -1, 0, 1, 3, 5)] for scale in (0.01, 0.2)]

    def width(machines):
        family = {
            "family": "ib",
            "operation": "any",
            "sizes": "from 1 MiB",
            "machines": machines,
            "generations": ["ib"],
            "machine_left_out": narrow,
            "generation_left_out": wide,
        }
        table = {"quantiles": _of_nccl()["quantiles"], "families": [family]}
        found = nccl_doubt("ib", False, "all_gather", "from 1 MiB", table).around(1.0)
        return np.log(found.high / found.low)

    assert 0.1 < width(100) < width(10) < width(2) < 2.0


def test_a_mixture_of_alike_is_like_each_and_of_unlike_between_them():
    alike = np.array([[-0.5, -0.3, -0.1, 0.0, 0.1, 0.3, 0.5]] * 2)
    assert _mixed(alike, [1, 5]) == pytest.approx(alike[0].tolist())
    apart = np.array([alike[0] - 1, alike[0] + 1])
    mixed = _mixed(apart, [1, 1])
    assert mixed == sorted(mixed)
    assert mixed[0] < -1 < 1 < mixed[-1]


def test_draws_follow_their_quantiles():
    levels = _of_nccl()["quantiles"]
    doubt = Doubt("", levels, [np.log(1 + level) for level in levels])
    drawn = doubt.factors(np.random.default_rng(1))
    assert np.quantile(drawn, 0.5) == pytest.approx(1.5, rel=0.01)
    assert drawn.min() == pytest.approx(1.05)
    assert drawn.max() == pytest.approx(1.95)
