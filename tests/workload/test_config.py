import subprocess
import sys

import pytest
from pydantic import ValidationError

import dpsim.workload
from dpsim.workload import WorkloadConfig


def test_defaults():
    config = WorkloadConfig.model_validate({"model": "ResNet-50", "batch_per_gpu": 64})
    assert config.model_dump() == {
        "model": "resnet50",
        "batch_per_gpu": 64,
        "precision": "fp32",
        "sequence_length": None,
        "optimizer": "momentum",
        "input": {"kind": "memory"},
        "dataset": None,
        "learners_per_gpu": 1,
        "execution": "eager",
        "gradient_accumulation": 1,
        "checkpointing": "none",
        "utilisation": (),
    }
    assert config.build().name == "resnet50"


def test_sequence_length_reaches_the_model():
    assert (
        WorkloadConfig(model="gpt2-small", batch_per_gpu=1, sequence_length=256).build().sample
        == "256 tokens"
    )


def test_survives_a_round_trip():
    config = WorkloadConfig(
        model="bert-base", batch_per_gpu=8, precision="bf16", sequence_length=384, optimizer="adam"
    )
    assert WorkloadConfig.model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize(
    ("change", "where", "message"),
    [
        (
            {"model": "resnet51"},
            "model",
            "must be a known model, but got 'resnet51' (did you mean 'resnet50'?)",
        ),
        ({"batch_per_gpu": 0}, "batch_per_gpu", "greater than or equal to 1"),
        ({"batch_per_gpu": 1.5}, "batch_per_gpu", "valid integer"),
        ({"precision": "fp64"}, "precision", "'fp32', 'tf32', 'fp16', 'bf16' or 'fp8'"),
        ({"optimizer": "lion"}, "optimizer", "'sgd', 'momentum' or 'adam'"),
        (
            {"sequence_length": 128},
            "sequence_length",
            "must be left out for a model of images, but got 128",
        ),
        (
            {"model": "gpt2", "sequence_length": 1025},
            "sequence_length",
            "must be from 1 to 1024 tokens for this model, but got 1025",
        ),
        (
            {"model": "gpt2", "sequence_length": 0},
            "sequence_length",
            "must be from 1 to 1024 tokens for this model, but got 0",
        ),
        ({"input": {"kind": "disk"}}, "input", "'memory', 'storage'"),
        ({"batch": 64}, "batch", "Extra inputs are not permitted"),
    ],
)
def test_bad_input(change, where, message):
    with pytest.raises(ValidationError) as caught:
        WorkloadConfig.model_validate({"model": "resnet50", "batch_per_gpu": 64} | change)
    (problem,) = caught.value.errors()
    assert problem["loc"][-1] == where
    assert message in problem["msg"]


def test_all_is_sorted_and_there():
    assert dpsim.workload.__all__ == sorted(
        dpsim.workload.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name)
    )
    assert all(hasattr(dpsim.workload, name) for name in dpsim.workload.__all__)


def test_importing_it_loads_nothing_slow():
    code = "import sys, dpsim.workload; print([m for m in ('torch', 'scipy', 'pint', 'networkx') if m in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


def test_a_step_has_so_many_passes_of_the_batch():
    assert (
        WorkloadConfig(
            model="resnet50", batch_per_gpu=8, gradient_accumulation=3, learners_per_gpu=2
        ).samples_per_gpu
        == 48
    )


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("none", None),
        ("full", 1),
        ("every 1 layer", 1),
        ("every 4 layers", 4),
        ("every 120 layers", 120),
    ],
)
def test_checkpointing_in_words(text, every):
    assert (
        WorkloadConfig(model="resnet50", batch_per_gpu=8, checkpointing=text).checkpoint_every
        == every
    )


@pytest.mark.parametrize(
    "text",
    ["", "some", "every 0 layers", "every layers", "every -1 layers", "every 4 layers or so"],
)
def test_checkpointing_that_is_none(text):
    with pytest.raises(ValidationError, match="checkpointing"):
        WorkloadConfig(model="resnet50", batch_per_gpu=8, checkpointing=text)
