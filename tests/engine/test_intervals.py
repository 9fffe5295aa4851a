"""How far a step may be off: what is drawn, and what it rests on."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dpsim import load_scenario, simulate
from dpsim.base.uncertainty import CONFIDENCE, ENDS, ModelError, PredictionInterval, normal_spread
from dpsim.engine import prepare
from dpsim.engine.intervals import compute_errors
from dpsim.hardware import nodes, pcie_rate
from dpsim.network import beyond, machine_error, named_model
from dpsim.network.libraries.nccl import NcclMachine
from dpsim.topology import ClusterConfig, build_cluster
from dpsim.workload.software import BY_TIER

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


MEASURED = "calibration={step_time: 300 ms, source: test}"


def test_a_step_measured_on_several_nodes_is_sure_there_whatever_it_sends():
    """The measured step counts, however long its communication is by itself."""
    there = interval("calibration={nodes: 4, step_time: 300 ms, source: test}")
    assert there.low > 0.9 * 0.3
    assert there.high < 1.1 * 0.3


def test_a_measured_step_is_the_surest_where_it_was_measured():
    """There it is repeated; beyond, each doubling of nodes, GPUs a node and batch adds error."""
    one_gpu = ["cluster.nodes=1", "cluster.gpus_per_node=1"]
    here, described = interval(*one_gpu, MEASURED), interval(*one_gpu)
    assert here.low < 0.3 < here.high < 1.2 * here.low
    assert here.basis.startswith("computing: 1 measured run, the nearest on 1 node with 1 ")
    assert here.nearest == ("your run on 1 node with 1 GPU each and batch 64",)
    known = "{compute_scale: 1, source: test, known: [{nodes: 1, gpus_per_node: 1, batch: 64}]}"
    widths = [
        interval(*one_gpu, f"calibration={known}", f"workload.batch_per_gpu={batch}").width
        for batch in (64, 32, 16, 8)
    ]
    assert widths == sorted(widths)
    assert described.width > 1.05 * widths[-1]


def test_a_calibrated_answer_is_never_wider_than_the_uncalibrated_one():
    known = "{compute_scale: 1, source: test, known: [{nodes: 1, gpus_per_node: 1, batch: 1}]}"
    far = ["cluster.nodes=64", "workload.batch_per_gpu=128"]
    assert interval(*far, f"calibration={known}").width <= interval(*far).width


def test_a_step_is_in_the_middle_of_its_interval_and_sources_are_parts_of_it():
    result = simulate(load_scenario(QUICKSTART, FEW))
    found, step = result.interval, result.step_time_s["mean"]
    arms = np.log([step / found.low, found.high / step])
    assert arms.min() >= 0.24 * arms.sum()
    assert [each.name for each in found.sources] == ["computing", "communication"]
    for _, low, high in found.sources:
        assert found.low <= low * 1.05 < step < high <= found.high * 1.05
    assert any("resnet50 on v100" in each for each in found.nearest)


def test_a_gpu_unlike_all_that_were_measured_is_extrapolated_and_less_sure():
    known = interval("cluster.node=dgx-a100", "cluster.network.nics_per_node=8")
    other = interval("cluster.node=mi300x-8gpu", "cluster.network.nics_per_node=8")
    assert any("no cdna3 GPU was measured" in each for each in other.extrapolated)
    assert not any("GPU was measured" in each for each in known.extrapolated)
    assert "its GPU's generation too" in other.basis


def test_what_software_has_in_common_makes_a_family():
    def model_error(*changes):
        return compute_errors(prepare(load_scenario(QUICKSTART, changes)))[0]

    nothing, typical = model_error(), model_error("workload.software=typical")
    submission, recommender = (
        model_error("workload.software=mlperf"),
        model_error("workload.model=neumf"),
    )
    widths = [each.around(1.0).width for each in (submission, typical, nothing, recommender)]
    assert widths == sorted(widths)
    assert widths[0] < 0.6 * widths[2]


def test_software_that_no_row_has_on_such_a_model_is_that_which_is_not_stated():
    """Every tier answers for a model of recurrences, whichever of them was measured."""
    for tier in BY_TIER:
        found = interval("workload.model=gnmt", f"workload.software={tier}")
        assert found.low < found.high


def test_hidden_communication_counts_only_as_far_as_it_may_come_out():
    """With fast links all is hidden, and errors of communication hardly matter."""
    computing = interval(MEASURED)
    slow = interval("calibration={step_time: 600 ms, source: test}", "cluster.network.nic=10GbE")
    assert computing.high / computing.low < slow.high / slow.low


def test_collectives_of_machines_that_were_measured_are_surer():
    h100 = build_cluster(ClusterConfig(nodes=1, node=nodes()["dgx-h100"]))
    found, ideal = (
        named_model("auto", "auto", h100, library=library).model_error(2**30).around(1.0)
        for library in ("nccl", "ideal")
    )
    assert 0.65 < found.low < 1 < found.high < 1.6
    assert found.extrapolated == ()
    assert ideal.high / ideal.low > found.high / found.low
    assert ideal.extrapolated


def error(transport, operation="all_reduce"):
    rate = {"nodes": 2, "transport": transport, "nic_rate": 50e9}
    return machine_error(NcclMachine("h100", 90, "nvswitch", 450e9, **rate), operation, 2**30, 0.1)


def test_no_interval_promises_more_than_the_links_carry():
    machine = NcclMachine("a100", 80, "nvswitch", 300e9, nodes=4, transport="ib", nic_rate=200e9)
    least = (
        1.5 * 2**30 / 200e9
    )  # three of four parts leave each node, once to add and once to share
    far, near = (
        machine_error(machine, "all_reduce", 2**30, predicted).around(predicted)
        for predicted in (3 * least, 1.05 * least)
    )
    assert far.low > least
    assert near.low == pytest.approx(least)
    assert near.high / 1.05 == pytest.approx(far.high / 3)
    assert machine_error(machine, "all_reduce", 0, 0.0).around(0.0).high == 0


def test_a_generation_of_one_machine_is_extrapolated():
    assert error("tcp").extrapolated == ("only one machine with TCP sockets was measured",)
    assert error("roce").extrapolated == ()


def test_an_operation_that_no_machine_of_a_generation_ran_is_extrapolated():
    assert error("roce", "broadcast").extrapolated == ("no machine with RoCE ran broadcast",)


def on_nodes(count, node="hgx-h100-roce", **more):
    config = {"nodes": count, "node": nodes()[node], **more}
    return build_cluster(ClusterConfig.model_validate(config))


@pytest.mark.parametrize(
    ("cluster", "apart"),
    [
        (on_nodes(2), ()),
        (on_nodes(3), ()),
        (on_nodes(4), ("measured machines with RoCE have at most 2 nodes, this one 4",)),
        (
            on_nodes(2, "mi300x-8gpu", network={"fabric": "single-switch", "nic": "ib-ndr"}),
            ("no machine with RCCL was measured over ib",),
        ),
    ],
    ids=["as-many", "more", "twice-the-nodes", "transport"],
)
def test_what_is_twice_as_large_as_all_that_was_measured_is_extrapolated(cluster, apart):
    model_error = named_model("auto", "auto", cluster, library="nccl").model_error(2**30)
    assert model_error.extrapolated == apart
    assert ("whole generations left out" in model_error.basis) == bool(apart)


def test_a_box_of_twice_as_many_gpus_as_were_measured_is_beyond_them():
    box = NcclMachine("rtx-2080-ti", 75, "pcie", pcie_rate(3), gpus_per_node=8)
    assert beyond(box) == "measured machines with pcie3 have at most 4 GPUs, this one 8"
    assert beyond(replace(box, gpus_per_node=7)) == ""


def test_errors_of_few_and_of_many_nodes_are_those_of_one_network():
    few, many = (
        named_model("auto", "auto", on_nodes(count), library="nccl").model_error(2**30)
        for count in (2, 64)
    )
    drawn = few.factors(), many.factors()
    assert (np.argsort(drawn[0]) == np.argsort(drawn[1])).mean() > 0.99


def test_a_machine_that_was_measured_is_surer_than_one_of_its_fabric():
    """MI300X over RoCE stands in a table with 355 GB/s: not 41 to 235 by other machines."""
    cluster = on_nodes(2, "oci-bm-gpu-mi300x-8")
    model = named_model("auto", "auto", cluster, library="nccl")
    found = model.model_error(2**32).around(model.seconds_from_common_start(2**32))
    assert found.nearest[0].startswith("2 nodes of 8 mi300x, ")
    assert found.nearest[0].endswith("GB/s bus bandwidth at 16 GiB")


def test_draws_follow_their_spread():
    model_error = ModelError("", ([0.1, 0.2, 0.3], [0.2, 0.4, 0.6]))
    drawn = np.log(model_error.factors())
    for level, below, above in ((0.5, 0.1, 0.2), (0.8, 0.2, 0.4)):
        ends = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
        assert ends == pytest.approx([-below, above], abs=0.02)
    assert drawn.min() == pytest.approx(-0.3)
    assert drawn.max() == pytest.approx(0.6)


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
    """A step that computes 10 % longer on the same GPU differs from it, for both have the
    same error of 30 %; one on another GPU, whose error is its own, is not.
    """
    spread = normal_spread(0.3 / 1.645)
    own, other = (ModelError("left out", spread, subject=gpu).factors() for gpu in ("a", "b"))
    one, alike, apart = (
        PredictionInterval(*np.quantile(seconds, ENDS), CONFIDENCE, "", (), samples=seconds)
        for seconds in (own, 1.1 * own, 1.1 * other)
    )
    assert not one.indistinguishable_from(alike)
    assert one.indistinguishable_from(alike, scale=1 / 1.1)
    assert one.indistinguishable_from(one, scale=1 + 1e-15)  # the same but for rounding
    assert one.indistinguishable_from(apart)


def test_measured_layers_are_less_sure_beyond_the_measured_batches(tiny):
    """The width grows with the root of doublings, as that of other calibrations does."""
    found = {
        batch: simulate(tiny(1, workload={"batch_per_gpu": batch})) for batch in (4, 8, 16, 32)
    }
    intervals = {batch: result.interval for batch, result in found.items()}
    assert intervals[8].low == intervals[8].high
    assert intervals[8].extrapolated == ()
    widths = {batch: np.log(one.high / one.low) for batch, one in intervals.items()}
    assert widths[16] > 0.3
    assert widths[32] == pytest.approx(2**0.5 * widths[16], rel=0.02)
    assert widths[4] == pytest.approx(widths[16], rel=0.02)
    assert intervals[32].low < found[32].step_time_s["mean"] < intervals[32].high
    assert intervals[32].extrapolated == ("layers were measured at batch 8, not at 32",)


def traced(tmp_path, *steps):
    """A scenario of a profile whose layer took these seconds in the traced steps of 8 samples."""
    mean = sum(steps) / len(steps)
    profile = {
        "name": "m",
        "layers": [{"name": "a"}],
        "measured": {
            "batch_sizes": [8],
            "forward_s": [[mean]],
            "backward_s": [[0]],
            "steps_s": steps,
        },
    }
    (tmp_path / "m.json").write_text(json.dumps(profile))
    (tmp_path / "m.yaml").write_text(
        "name: m\ncluster: {nodes: 1, node: single-gpu}\n"
        "workload: {model: {profile: m.json}, batch_per_gpu: 8, optimizer: sgd}\n"
    )
    return tmp_path / "m.yaml"


def test_the_spread_of_traced_steps_is_their_error(dpsim, tmp_path):
    """Nine in ten of steps whose logarithms spread by s lie within 1.645 s of their mean."""
    file = traced(tmp_path, 1.94, 1.13, 1.06)
    found = simulate(load_scenario(file)).interval
    spread = np.log([1.94, 1.13, 1.06]).std(ddof=1)
    assert np.log(found.width) == pytest.approx(2 * 1.645 * spread, rel=0.05)
    assert [source.name for source in found.sources] == ["computing"]
    assert found.basis == "computing as measured in the model's profile, 3 steps"
    further = simulate(load_scenario(file, ["workload.batch_per_gpu=16"])).interval
    assert further.width > found.width


def test_no_interval_is_printed_where_no_error_is_known(dpsim, tmp_path):
    _, out, _ = dpsim("run", traced(tmp_path, 1.38))
    assert out.startswith("m: a step takes 1.38 s\n")
    _, out, _ = dpsim("run", traced(tmp_path, 1.94, 1.13, 1.06))
    assert out.startswith("m: a step takes 1.38 s, 90% interval ")
