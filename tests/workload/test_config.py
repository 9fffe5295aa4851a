import pytest
from pydantic import ValidationError

import dpsim.workload
from dpsim.base.errors import DpsimError
from dpsim.workload import Recompute, WorkloadConfig


def test_defaults():
    config = WorkloadConfig.model_validate({"model": "ResNet-50", "batch_per_gpu": 64})
    assert config.model_dump() == {
        "model": "resnet50",
        "batch_per_gpu": 64,
        "global_batch": None,
        "precision": "fp32",
        "parameter_dtype": "fp32",
        "cross_entropy": None,
        "sequence_length": None,
        "attention": None,
        "optimizer": "momentum",
        "input": {"kind": "memory"},
        "sync_batch_norm": 1,
        "gradient_statistics": "none",
        "dataset": None,
        "learners_per_gpu": 1,
        "software": "typical",
        "memory_format": None,
        "execution": None,
        "optimizer_kernels": None,
        "padding": "kept",
        "kernels": "2024",
        "trainable": "all",
        "gradient_accumulation": 1,
        "checkpoint": "none",
        "checkpointing": None,
        "utilisation": (),
    }
    assert config.build().name == "resnet50"


@pytest.mark.parametrize(("word", "meant"), [("bfloat16", "bf16"), ("FP16", "fp16")])
def test_a_precision_may_be_called_as_torch_calls_it(word, meant):
    config = WorkloadConfig(model="gpt2", batch_per_gpu=1, precision=word)
    assert config.precision == meant


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
        ({"precision": "fp64"}, "precision", "'fp32', 'tf32', 'fp16', 'bf16', 'fp8' or 'nvfp4'"),
        (
            {"optimizer": "lion"},
            "optimizer",
            "'adamw', 'adam-8bit', 'adamw-8bit', 'adagrad', 'lars' or 'lamb'",
        ),
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
        ({"input": {"kind": "disk"}}, "input", "'memory', 'script', 'storage'"),
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
        ("full", Recompute()),
        ("every 1 layer", Recompute(layers=1)),
        ("every 4 layers", Recompute(layers=4)),
        ("every 120 layers", Recompute(layers=120)),
    ],
)
def test_checkpointing_in_words(text, every):
    assert WorkloadConfig(model="resnet50", batch_per_gpu=8, checkpointing=text).recompute == every


@pytest.mark.parametrize(
    "text",
    ["", "some", "every 0 layers", "every layers", "every -1 layers", "every 4 layers or so"],
)
def test_checkpointing_that_is_none(text):
    with pytest.raises(ValidationError, match="checkpointing"):
        WorkloadConfig(model="resnet50", batch_per_gpu=8, checkpointing=text)


def test_checkpoint_in_its_newer_word():
    def recompute(checkpoint):
        return WorkloadConfig.model_validate(
            {"model": "resnet50", "batch_per_gpu": 8, "checkpoint": checkpoint}
        ).recompute

    assert recompute("none") is None
    assert recompute("full") == recompute({"every": 1}) == recompute({"fraction": 1}) == Recompute()
    assert recompute("selective") == Recompute(selective=True)
    assert recompute({"every": 4}) == recompute({"fraction": 0.25})


def test_checkpoint_may_be_given_once():
    with pytest.raises(ValidationError, match="beside checkpoint, its newer word, but got 'full'"):
        WorkloadConfig(model="resnet50", batch_per_gpu=8, checkpoint="full", checkpointing="full")


def test_words_of_other_tools_in_any_case():
    config = WorkloadConfig.model_validate(
        {
            "model": "gpt2",
            "batch_per_gpu": 1,
            "precision": "BF16",
            "optimizer": "AdamW",
            "attention": "flash_attention_2",
        }
    )
    assert (config.precision, config.optimizer, config.attention) == ("bf16", "adamw", "flash")
    again = WorkloadConfig(model="gpt2", batch_per_gpu=1, attention="eager")
    assert again.attention == "unfused"


def test_attention_is_chosen_where_there_is_any():
    with pytest.raises(ValidationError, match="must be left out for a model whose attention"):
        WorkloadConfig(model="resnet50", batch_per_gpu=1, attention="flash")
    named = WorkloadConfig(model="gpt2", batch_per_gpu=1, attention="unfused")
    left_open = WorkloadConfig(model="gpt2", batch_per_gpu=1)
    assert named.build(flash=True) == left_open.build(flash=False)
    assert left_open.build(flash=True).activations < named.build().activations


@pytest.mark.parametrize(
    ("given", "batch", "passes"),
    [
        ({"global_batch": 1024, "batch_per_gpu": 16}, 16, 8),
        ({"global_batch": 1024, "gradient_accumulation": 4}, 32, 4),
        ({"global_batch": 1024}, 128, 1),
        ({"global_batch": 1024, "batch_per_gpu": 16, "gradient_accumulation": 8}, 16, 8),
        ({"global_batch": 1024, "batch_per_gpu": 16, "learners_per_gpu": 2}, 16, 4),
    ],
)
def test_two_of_three_determine_the_third(given, batch, passes):
    config = WorkloadConfig.model_validate({"model": "gpt2", **given}).resolved(8)
    assert (config.batch_per_gpu, config.gradient_accumulation) == (batch, passes)
    assert 8 * config.samples_per_gpu == 1024
    # Another number of workers divides it anew.
    if len(given) < 3:
        assert 4 * config.resolved(4).samples_per_gpu == 1024


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"global_batch": 100}, "a multiple of 8 workers x 1 passes = 8, but got 100"),
        (
            {"global_batch": 64, "batch_per_gpu": 16},
            "a multiple of 8 workers x 16 samples per GPU and pass = 128, but got 64",
        ),
        (
            {"global_batch": 64, "batch_per_gpu": 4, "gradient_accumulation": 3},
            "8 workers x 4 samples x 3 passes = 96 where all three are given, but got 64",
        ),
    ],
)
def test_a_global_batch_that_does_not_divide(given, message):
    config = WorkloadConfig.model_validate({"model": "gpt2", **given})
    with pytest.raises(DpsimError, match=message):
        config.resolved(8)


def test_some_batch_is_needed():
    with pytest.raises(ValidationError, match="batch_per_gpu is missing"):
        WorkloadConfig(model="gpt2")
