"""Words for the software, what they are by default, and what each of them does to a step."""

import json

import pytest
from pydantic import ValidationError

from dpsim import load_scenario, simulate
from dpsim.engine import prepare
from dpsim.workload import WorkloadConfig
from dpsim.workload.software import BY_TIER

ROOM = "scenarios/quickstart.yaml"


def workload(**more):
    return WorkloadConfig.model_validate({"model": "resnet50", "batch_per_gpu": 1, **more})


def step(*changes):
    job = prepare(load_scenario(ROOM, ["workload.precision=fp16", *changes]))
    return job.times[0].step


@pytest.mark.parametrize("tier", BY_TIER)
def test_a_tier_sets_the_other_words(tier):
    assert workload(software=tier).full_software == BY_TIER[tier]


def test_a_stated_word_counts_before_its_tier():
    words = workload(software="mlperf", execution="eager").full_software
    assert (words.execution, words.memory_format) == ("eager", "channels_last")


def test_typical_is_the_default():
    assert workload().full_software == BY_TIER["typical"]
    assert workload().assumed_software == (
        "software",
        "memory_format",
        "execution",
        "optimizer_kernels",
    )
    assert workload(memory_format="channels_last", software="tuned").assumed_software == (
        "execution",
        "optimizer_kernels",
    )


def test_the_answer_says_what_was_taken_and_what_of_it_was_assumed():
    result = simulate(load_scenario(ROOM, ["workload.execution=compile"]))
    assert result.to_json()["software"] == {
        "sample": "224x224 image",
        "sequence_length": None,
        "software": "typical",
        "memory_format": "channels_first",
        "execution": "compile",
        "optimizer_kernels": "foreach",
        "cluster": "tuned",
        "assumed": ["software", "memory_format", "optimizer_kernels", "cluster"],
    }


@pytest.mark.parametrize(
    ("sets", "line"),
    [
        (["workload.model=bert-base"], "sample      128 tokens (assumed: sequence_length)"),
        (
            ["workload.model=t5-small"],
            "sample      512 tokens and 114 of their spans "
            "(assumed: sequence_length, second length)",
        ),
        (
            ["workload.model=t5-small", "workload.sequence_length=512"],
            "sample      512 tokens and 114 of their spans (assumed: second length)",
        ),
        (["workload.model=bert-base", "workload.sequence_length=128"], None),
        (["workload.model=bert-base", "workload.padding={removed: {mean_length: 99}}"], None),
        ([], None),
    ],
)
def test_run_and_memory_report_an_assumed_sequence_length(dpsim, sets, line):
    sets = [f"--set={each}" for each in (*sets, "workload.batch_per_gpu=1", "run.steps=1")]
    for command in ("run", "memory"):
        _, out, _ = dpsim(command, ROOM, *sets)
        output = [each for each in out.splitlines() if each.startswith("sample ")]
        assert output == ([] if line is None else [line])
        answer = json.loads(dpsim(command, ROOM, *sets, "--json")[1])
        found = answer if command == "memory" else answer["software"]
        assert ("sequence_length" in found["assumed"]) == (
            line is not None and "(assumed: sequence_length" in line
        )


@pytest.mark.parametrize(
    "change",
    [
        "workload.memory_format=channels_last",
        "workload.execution=cuda-graph",
        "workload.execution=compile",
        "workload.software=mlperf",
    ],
)
def test_better_software_makes_a_step_shorter(change):
    assert step(change) < step()


def test_a_loop_of_kernels_makes_the_update_longer():
    assert step("workload.optimizer_kernels=loop") > step("workload.optimizer_kernels=foreach")


def test_a_script_that_feeds_samples_makes_the_gpu_wait():
    script = ["workload.input={kind: script, seconds_per_step: 1 s, copy_rate: 1 MB/s}"]
    images = 3 * 4 * 224 * 224 * load_scenario(ROOM).workload.samples_per_gpu
    assert step(*script) == pytest.approx(step() + 1 + images / 1e6)
    assert step("workload.input={kind: script}") > step() + 0.01


def test_padding_that_is_removed_is_not_computed():
    kept, removed, short = (
        workload(model="bert-large", **words).build()
        for words in (
            {"sequence_length": 512},
            {"sequence_length": 512, "padding": {"removed": {"mean_length": 256}}},
            {"sequence_length": 256},
        )
    )
    assert kept.forward_flop > removed.forward_flop == short.forward_flop
    assert removed.tokens == 256


def test_only_sequences_have_padding():
    with pytest.raises(ValidationError, match="must be left out for a model of images, but got 9"):
        workload(padding={"removed": {"mean_length": 9}})
