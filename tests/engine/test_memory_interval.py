"""How far a peak of memory may be off, and what that says of whether it fits."""

from dataclasses import replace

import pytest

from dpsim import load_scenario, simulate
from dpsim.engine import memory_use

QUICKSTART = "scenarios/quickstart.yaml"
MEASURED = [
    "cluster.node=dgx-h100",
    "cluster.gpus_per_node=8",
    "workload.model=llama3-8b",
    "workload.precision=bf16",
    "workload.optimizer=adam",
    "workload.batch_per_gpu=1",
    "strategy.aggregation={kind: sharded, stage: 3}",
]


def use_of(*overrides):
    return memory_use(load_scenario(QUICKSTART, overrides))


def test_what_was_measured_is_not_extrapolated():
    use = use_of(*MEASURED)
    found = use.interval
    assert found.extrapolated == ()
    assert found.confidence == 0.9
    assert found.basis == "memory: 8 published peaks of llama3-8b, of 5 configurations"
    assert found.low < use.held.total < found.high


@pytest.mark.parametrize(
    ("override", "apart"),
    [
        ("workload.model=gpt2-xl", "of gpt2-xl"),
        ("cluster.node=dgx-b200", "on b200"),
        ("workload.precision=fp16", "in fp16"),
        ("strategy.aggregation.stage=2", "at sharding stage 2 (ZeRO 2)"),
    ],
)
def test_what_no_peak_had_is_extrapolated_and_less_sure(override, apart):
    known, other = use_of(*MEASURED), use_of(*MEASURED, override)
    (sentence,) = other.interval.extrapolated
    assert sentence.startswith(f"no peak {apart}")
    spread = [each.interval.high / each.interval.low for each in (known, other)]
    assert spread[0] < spread[1]


def test_a_model_of_convolutions_is_unlike_all_of_them():
    sentences = use_of().interval.extrapolated
    assert "no peak of resnet50 was measured" in sentences
    assert "no peak on v100-sxm2-16gb or its generation was measured" in sentences


def test_a_verdict_that_the_error_may_turn_is_a_warning():
    use = use_of(*MEASURED)
    low, high = use.interval.low, use.interval.high
    tight, loose = replace(use, capacity=low * 1.001), replace(use, capacity=high * 0.999)
    assert not tight.fits
    assert tight.warnings[0].startswith("may fit all the same: ")
    assert loose.fits
    assert loose.warnings[0].startswith("may not fit: ")
    for capacity in (0.999 * low, high):
        assert replace(use, capacity=capacity).warnings == []


def test_what_ran_is_never_surely_too_large():
    """ResNet-50 with 128 images ran on a K80 of 12 GB; 7 % more than that is predicted."""
    k80 = replace(use_of("workload.batch_per_gpu=128"), capacity=12e9)
    assert not k80.fits
    assert "may fit all the same" in k80.warnings[0]


def test_a_run_warns_where_memory_does():
    """78 GB of the 85.5 GB of an H100 are 92 where the model errs most."""
    short = [*MEASURED, "run={steps: 1, warmup: 0}"]
    scenario = load_scenario(QUICKSTART, short)
    warnings = memory_use(scenario).warnings
    assert len(warnings) == 1
    assert f"memory: {warnings[0]}" in simulate(scenario).warnings
    roomy = load_scenario(QUICKSTART, [*short, "workload.checkpoint=full"])
    assert not any(warning.startswith("memory:") for warning in simulate(roomy).warnings)


def test_with_headroom_it_fits_by_the_upper_end_of_the_interval():
    use = use_of(*MEASURED)
    just = replace(use, capacity=use.interval.high * (1 + 1e-12))
    assert just.with_headroom.fits
    assert not replace(just, capacity=use.interval.high * (1 - 1e-9)).with_headroom.fits


def test_without_activations_there_is_no_verdict(tmp_path, dpsim):
    (tmp_path / "m.json").write_text(
        '{"name": "m", "layers": [{"name": "a", "kind": "linear", "parameters": [99]}],'
        ' "measured": {"batch_sizes": [8], "forward_s": [[0.1]], "backward_s": [[0.2]]}}'
    )
    (tmp_path / "m.yaml").write_text(
        "name: m\ncluster: {nodes: 1, node: single-gpu}\n"
        "workload: {model: {profile: m.json}, batch_per_gpu: 8}\n"
    )
    use = memory_use(load_scenario(tmp_path / "m.yaml"))
    found = use.report()
    unknown = ("fits", "interval_bytes", "spare_bytes", "largest_batch")
    assert [found[key] for key in unknown] == [None] * 4
    assert found["parts_bytes"]["activations"] is None
    assert found["stages"] == []
    out = dpsim("memory", tmp_path / "m.yaml")[1]
    assert "m: at least 1.3 GB of 16.9 GB on each v100-pcie-16gb, activations not known" in out
    assert "verdict     not known, since the model's profile states no activations" in out
    assert "fits" not in out
    too_small = replace(use, capacity=1.3e9 + 1000)
    assert too_small.report()["fits"] is False
    assert too_small.report()["spare_bytes"] < 0
