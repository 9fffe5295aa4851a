"""Steps of language models over the catalogue: what must hold on GPUs that nobody measured too."""

import pytest

from dpsim import Scenario, simulate
from dpsim.base.errors import DpsimError
from dpsim.hardware import gpus
from dpsim.workload import constants_file

SHARDED = {"kind": "sharded", "stage": 3, "wrap": "block", "library": "nccl"}
# Generations with constants of their own, or of one that stands for them.
KNOWN = {*constants_file()["generations"], *constants_file()["extrapolated"]} - {"other"}
FOLLOWS_THE_LAW = [
    name for name in gpus() if "bf16" in gpus()[name].peak and gpus()[name].architecture in KNOWN
]
# By architecture the first: what the others say is the same law.
OF_EACH_LAW = {gpus()[name].architecture: name for name in reversed(FOLLOWS_THE_LAW)}


def step(gpu="h100-sxm", *, nodes=1, aggregation=None, **workload):
    """The answer's JSON for a step of Llama 3 8B on eight GPUs a node, whatever their memory."""
    network = {"fabric": "single-switch", "nic": "ib-ndr", "nics_per_node": 8}
    scenario = {
        "name": "sanity",
        "cluster": {"nodes": nodes, "node": "dgx-h100", "gpu": gpu}
        | ({"network": network} if nodes > 1 else {}),
        "workload": {
            "model": "llama3-8b",
            "sequence_length": 4096,
            "batch_per_gpu": 2,
            "precision": "bf16",
            "optimizer": "adamw",
            **workload,
        },
        "strategy": {"aggregation": aggregation or SHARDED},
        "run": {"steps": 1, "warmup": 0, "allow_out_of_memory": True},
    }
    return simulate(Scenario.model_validate(scenario)).to_json()


def tokens(*args, **kwargs):
    return step(*args, **kwargs)["tokens_per_s_per_gpu"]


@pytest.mark.parametrize(
    "gpu",
    [
        name if name in OF_EACH_LAW.values() else pytest.param(name, marks=pytest.mark.wide)
        for name in FOLLOWS_THE_LAW
    ],
)
def test_no_gpu_uses_more_of_its_peak_than_any_has_and_larger_batches_are_quicker(gpu):
    found = [step(gpu, batch_per_gpu=batch) for batch in (1, 4, 32)]
    rates = [answer["tokens_per_s_per_gpu"] for answer in found]
    assert rates == sorted(rates)
    for answer in found:
        assert 0.1 < answer["mfu"] <= answer["hfu"] < 0.8
        interval = answer["interval_s"]
        assert interval["low"] < answer["step_time_s"]["mean"] < interval["high"]


@pytest.mark.pairwise(strength=1)
@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("h200", "h100-sxm"),
        ("h100-sxm", "h100-sxm-96gb"),
        ("h100-sxm", "h100-pcie"),
        ("h100-sxm", "h20"),
        ("h100-sxm", "a100-sxm-80gb"),
        ("gh200", "h100-sxm"),
        ("a100-sxm-80gb", "a100-sxm-40gb"),
        ("a100-sxm-80gb", "a100-pcie-80gb"),
        ("b200", "h200"),
        ("b300", "b200"),
        ("mi325x", "mi300x"),
        ("mi300x", "mi250x"),
        ("l40s", "l4"),
        ("rtx-4090", "rtx-3090"),
        ("rtx-5090", "rtx-4090"),
    ],
)
@pytest.mark.parametrize("batch", [1, 16])
def test_what_has_more_of_everything_is_no_slower(better, worse, batch):
    assert tokens(better, batch_per_gpu=batch) >= tokens(worse, batch_per_gpu=batch)


@pytest.mark.parametrize("gpu", ["h100-sxm", "a100-sxm-80gb", "b200", "mi300x"])
def test_longer_sequences_cost_more_a_token_and_use_their_share(gpu):
    found = [step(gpu, sequence_length=length, batch_per_gpu=1) for length in (8192, 65536)]
    assert found[0]["tokens_per_s_per_gpu"] > found[1]["tokens_per_s_per_gpu"]
    # The masked half of attention counts as computed, which kernels of 2024 skip.
    assert 0.1 < found[1]["mfu"] < 0.85


def test_checkpointing_costs_at_most_the_forward_pass():
    plain, part, full = (
        step(checkpoint=kind)["step_time_s"]["mean"] for kind in ("none", "selective", "full")
    )
    assert plain < part < full < 1.36 * plain


def test_passes_cost_alike_and_spare_the_optimiser():
    one, four = (step(gradient_accumulation=passes)["step_time_s"]["mean"] for passes in (1, 4))
    assert 3.5 * one < four < 4 * one


def test_compiled_is_quicker_than_eager_and_fp8_than_bf16():
    eager, compiled = step(), step(execution="compile")
    assert 1.05 < compiled["tokens_per_s"] / eager["tokens_per_s"] < 1.35
    fp8 = step(execution="compile", precision="fp8")
    assert 1.1 < fp8["tokens_per_s"] / compiled["tokens_per_s"] < 1.5


@pytest.mark.parametrize("nodes", [2, 16])
def test_hybrid_sharding_and_replicas_keep_most_of_a_nodes_pace(nodes):
    kinds = [
        SHARDED,
        SHARDED | {"shard_group": "node"},
        {"kind": "allreduce", "library": "nccl"},
    ]
    for kind in kinds:
        single = tokens(aggregation=kind)
        assert 0.6 * single < tokens(nodes=nodes, aggregation=kind) < 1.03 * single


def test_nvfp4_is_quicker_than_fp8_on_blackwell():
    fp8, nvfp4 = (step("b200", precision=precision) for precision in ("fp8", "nvfp4"))
    assert 1.02 < nvfp4["tokens_per_s"] / fp8["tokens_per_s"] < 1.7
    assert nvfp4["mfu"] < fp8["mfu"]


@pytest.mark.parametrize(
    ("gpu", "precision"), [("a100-sxm-80gb", "fp8"), ("h100-sxm", "nvfp4"), ("mi300x", "nvfp4")]
)
def test_precisions_that_a_gpu_lacks_are_refused(gpu, precision):
    with pytest.raises(DpsimError, match=f"must be a precision that the {gpu} has"):
        step(gpu, precision=precision)
