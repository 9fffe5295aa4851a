"""How far a step may be off: what is drawn, and what it rests on."""

from dataclasses import replace

import numpy as np
import pytest

from dpsim import load_scenario, simulate
from dpsim.base.doubt import CONFIDENCE, ENDS, Doubt, PredictionInterval, mixed
from dpsim.engine import compute_doubt, prepare
from dpsim.hardware import nodes, pcie_rate
from dpsim.network import beyond, named_model, nccl_doubt
from dpsim.network.libraries.nccl import NcclMachine
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
    other = interval("cluster.node=mi300x-8gpu", "cluster.network.nics_per_node=8")
    assert any("no cdna3 GPU was measured" in each for each in other.extrapolated)
    assert not any("GPU was measured" in each for each in known.extrapolated)
    assert "its GPU's generation too" in other.basis


def test_what_software_has_in_common_makes_a_family():
    def doubt(*changes):
        return compute_doubt(prepare(load_scenario(QUICKSTART, changes)))

    image, recommender = doubt(), doubt("workload.model=neumf")
    text = doubt("workload.model=bert-base")
    submission = doubt("workload.software=mlperf")
    assert image.quantiles == text.quantiles
    assert image.quantiles != recommender.quantiles
    wide = [each.quantiles[-1] - each.quantiles[0] for each in (submission, image)]
    assert wide[0] < 0.6 * wide[1]


def test_hidden_communication_counts_only_as_far_as_it_may_come_out():
    """With fast links all is hidden, and errors of communication hardly matter."""
    computing = interval("calibration={step_time: 300 ms, source: test}")
    slow = interval("calibration={step_time: 600 ms, source: test}", "cluster.network.nic=10GbE")
    assert computing.high / computing.low < slow.high / slow.low


def test_collectives_of_machines_that_were_measured_are_surer():
    h100 = build_cluster(ClusterConfig(nodes=1, node=nodes()["dgx-h100"]))
    found, ideal = (
        named_model("auto", "auto", h100, library=library).doubt(2**30).around(1.0)
        for library in ("nccl", "ideal")
    )
    assert 0.65 < found.low < 1 < found.high < 1.6
    assert found.extrapolated == ()
    assert ideal.high / ideal.low > found.high / found.low
    assert ideal.extrapolated


def test_a_generation_of_one_machine_is_extrapolated():
    doubt = nccl_doubt("tcp", False, "all_reduce", "from 1 MiB")
    assert doubt.extrapolated == ("of tcp one machine was measured",)
    assert nccl_doubt("roce", False, "all_reduce", "from 1 MiB").extrapolated == ()


def test_an_operation_that_no_machine_of_a_generation_ran_is_extrapolated():
    doubt = nccl_doubt("roce", False, "broadcast", "from 1 MiB")
    assert doubt.extrapolated == ("of broadcast of roce no machine was measured",)


def on_nodes(count, node="hgx-h100-roce", **more):
    config = {"nodes": count, "node": nodes()[node], **more}
    return build_cluster(ClusterConfig.model_validate(config))


@pytest.mark.parametrize(
    ("cluster", "apart"),
    [
        (on_nodes(2), ()),
        (on_nodes(3), ()),
        (on_nodes(4), ("of roce no machine of 4 nodes was measured, 2 at most",)),
        (
            on_nodes(2, "mi300x-8gpu", network={"fabric": "single-switch", "nic": "ib-ndr"}),
            ("of rccl over ib no machine was measured",),
        ),
    ],
    ids=["as-many", "more", "twice-the-nodes", "transport"],
)
def test_what_is_twice_as_large_as_all_that_was_measured_is_extrapolated(cluster, apart):
    doubt = named_model("auto", "auto", cluster, library="nccl").doubt(2**30)
    assert doubt.extrapolated == apart
    assert ("whole generations left out" in doubt.basis) == bool(apart)


def test_a_box_of_twice_as_many_gpus_as_were_measured_is_beyond_them():
    box = NcclMachine("rtx-2080-ti", 75, "pcie", pcie_rate(3), gpus_per_node=8)
    assert beyond(box) == "of pcie3 no machine of 8 GPUs was measured, 4 at most"
    assert beyond(replace(box, gpus_per_node=7)) == ""


def test_errors_of_few_and_of_many_nodes_are_those_of_one_network():
    few, many = (
        named_model("auto", "auto", on_nodes(count), library="nccl").doubt(2**30)
        for count in (2, 64)
    )
    drawn = few.factors(), many.factors()
    assert (np.argsort(drawn[0]) == np.argsort(drawn[1])).mean() > 0.99


def test_two_machines_say_less_than_generations_left_out():
    """Student's t of two draws would allow for hundreds of times the predicted time."""
    gathers = nccl_doubt("pcie4-staged", True, "all_gather", "from 1 MiB")
    assert gathers.extrapolated == ("of all_gather of pcie4-staged two machines were measured",)
    assert nccl_doubt("rccl", False, "all_reduce", "below 1 MiB").extrapolated == (
        "of rccl two machines were measured",
    )
    interval = gathers.around(1.0)
    assert 0.2 < interval.low < 1 < interval.high < 10


def test_a_mixture_of_alike_is_like_each_and_of_unlike_between_them():
    levels = [0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975]
    alike = np.array([[-0.5, -0.3, -0.1, 0.0, 0.1, 0.3, 0.5]] * 2)
    assert mixed(levels, alike, [1, 5]) == pytest.approx(alike[0].tolist())
    between = mixed(levels, np.array([alike[0] - 1, alike[0] + 1]), [1, 1])
    assert [*between] == sorted(between)
    assert between[0] < -1 < 1 < between[-1]


def test_draws_follow_their_quantiles():
    levels = [0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95]
    doubt = Doubt("", levels, [np.log(1 + level) for level in levels])
    drawn = doubt.factors()
    assert np.quantile(drawn, 0.5) == pytest.approx(1.5, rel=0.01)
    assert drawn.min() == pytest.approx(1.05)
    assert drawn.max() == pytest.approx(1.95)


def test_the_library_that_auto_is_says_how_far_it_is_off():
    """NCCL's own residuals on H100s, those of no library where links are ideal."""
    h100 = ["cluster.node=dgx-h100", "cluster.nodes=1"]
    auto, nccl, ideal = (
        interval(*h100, f"strategy.aggregation.library={library}")
        for library in ("auto", "nccl", "ideal")
    )
    assert auto == nccl
    assert "machines of single-node NVLink" in auto.basis
    assert any("transfers are ideal" in each for each in ideal.extrapolated)


def test_errors_that_both_share_cancel_in_differences():
    """A step that computes 10 % longer on the same GPU is told apart from it, for both have the
    same error of 30 %; one on another GPU, whose error is its own, is not.
    """
    levels, quantiles = (0.05, 0.5, 0.95), (-0.3, 0.0, 0.3)
    own, other = (Doubt("left out", levels, quantiles, of=gpu).factors() for gpu in ("a", "b"))
    one, alike, apart = (
        PredictionInterval(*np.quantile(seconds, ENDS), CONFIDENCE, "", (), seconds)
        for seconds in (own, 1.1 * own, 1.1 * other)
    )
    assert not one.includes(alike)
    assert one.includes(alike, scale=1 / 1.1)
    assert one.includes(one, scale=1 + 1e-15)  # the same but for rounding
    assert one.includes(apart)
