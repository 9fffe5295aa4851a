"""GPUs whose efficiency nobody has measured: the answer says whose stands for it."""

import pytest

from dpsim import Scenario, simulate

HOW = "how much of its peaks the {} reaches was not measured: extrapolated from {}"


def warnings(node="dgx1-v100", gpu=None, **more):
    cluster = {"node": node, "gpus_per_node": 1, **({"gpu": gpu} if gpu else {})}
    scenario = {
        "name": "extrapolated",
        "cluster": cluster,
        "workload": {"model": "resnet18", "batch_per_gpu": 4, "precision": "fp32"},
        "run": {"steps": 1, "warmup": 0},
    }
    workload = scenario["workload"] | more.pop("workload", {})
    result = simulate(Scenario.model_validate({**scenario, "workload": workload, **more}))
    return [text for text in result.warnings if "peaks" in text]


LLAMA = {"model": "llama3.2-1b", "batch_per_gpu": 1, "sequence_length": 128, "precision": "bf16"}


@pytest.mark.parametrize(
    ("node", "workload", "message"),
    [
        ("dgx1-v100", {}, None),
        ("dgx-h100", LLAMA, None),
        ("dgx-b200", LLAMA, None),
        ("dgx-b200", {}, None),
        ("mi300x-8gpu", LLAMA, HOW.format("mi300x (cdna3)", "hopper")),
    ],
)
def test_a_generation_that_was_not_measured_is_named(node, workload, message):
    assert warnings(node, workload=workload) == ([] if message is None else [message])


def test_a_gpu_of_one_s_own_says_its_generation_or_is_extrapolated():
    gpu = {"peak": {"fp32": "10 TFLOP/s"}, "memory": "16 GB", "memory_bandwidth": "500 GB/s"}
    assert warnings(gpu=gpu) == [HOW.format("inline (other)", "ampere")]
    assert warnings(gpu=gpu | {"architecture": "turing"}) == []


def test_a_measured_step_needs_no_efficiency():
    assert (
        warnings("dgx-b200", calibration={"nodes": 1, "step_time": "50 ms", "source": "here"}) == []
    )
