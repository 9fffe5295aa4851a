"""A scenario's software, as torch's settings."""

from dataclasses import dataclass

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from validate.microbench.software import (
    OPTIMIZER_CLASSES,
    apply_execution,
    images,
    laid_out,
    omitted_words,
    optimizer_words,
)
from validate.training.local import flatten

pytestmark = pytest.mark.torch


@dataclass
class Words:
    memory_format: str = "channels_first"
    execution: str = "eager"
    optimizer_kernels: str = "foreach"


LAST = Words("channels_last")


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))


def is_last(tensor):
    return tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous()


def test_convolutions_and_images_are_channels_last_and_nothing_else_changes():
    module = laid_out(network(), LAST)
    assert [is_last(each) for each in module.parameters()] == [True, False, False, False]
    batch = torch.randn(2, 3, 8, 8)
    assert is_last(images(batch, LAST))
    assert images(batch, Words()) is batch
    tokens = torch.zeros(2, 8, dtype=torch.int64)
    assert images(tokens, LAST) is tokens
    torch.testing.assert_close(module(images(batch, LAST)), network()(batch))


def test_a_model_that_is_one_vector_keeps_its_layout():
    module, other = laid_out(network(), LAST), network()
    batch = torch.randn(2, 3, 8, 8)
    weights, gradient = flatten(module)
    assert is_last(module[0].weight)
    assert is_last(module[0].weight.grad)
    for each in (module, other):
        each(batch).square().mean().backward()
    torch.testing.assert_close(module[0].weight.grad, other[0].weight.grad)
    # Views still: what moves the vector moves the model.
    assert gradient.abs().sum() > 0
    weights.zero_()
    assert not any(parameter.any() for parameter in module.parameters())


@pytest.mark.parametrize("kernels", ["loop", "foreach", "fused", "sharded"])
@pytest.mark.parametrize("name", OPTIMIZER_CLASSES)
def test_each_optimiser_moves_alike_by_each_kind_of_kernels(name, kernels):
    moved = []
    for words in (Words(optimizer_kernels="loop"), Words(optimizer_kernels=kernels)):
        module = network()
        kind, settings = OPTIMIZER_CLASSES[name]
        optimiser = kind(module.parameters(), **settings, **optimizer_words(name, words))
        for parameter in module.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimiser.step()
        moved.append(torch.cat([each.detach().reshape(-1) for each in module.parameters()]))
    torch.testing.assert_close(*moved)
    reported = optimizer_words(name, Words(optimizer_kernels=kernels))
    assert reported == {} or any(reported.values()) == (kernels != "loop")


@pytest.mark.parametrize(
    ("execution", "graphs", "reported"),
    [
        ("eager", True, None),
        ("compile", True, {}),
        ("graph", True, {"mode": "reduce-overhead"}),
        ("graph", False, {}),
        ("cuda-graph", True, {"backend": "cudagraphs"}),
        ("cuda-graph", False, None),
    ],
)
def test_how_passes_are_executed(monkeypatch, execution, graphs, reported):
    requested = []
    monkeypatch.setattr(
        torch, "compile", lambda forward, **words: requested.append(words) or forward
    )
    apply_execution(network().forward, Words(execution=execution), graphs=graphs)
    assert requested == ([] if reported is None else [reported])


ON_H100 = {"on_gpu": True, "divides": False, "flat": False}
SUBSTITUTED = [
    (Words(), "adamw", {"on_gpu": False, "flat": True}, ""),
    (Words(execution="cuda-graph"), "adamw", {}, ""),
    (Words(execution="cuda-graph"), "adamw", {"on_gpu": False}, "a processor has no CUDA graphs"),
    (Words(execution="graph"), "adamw", {"divides": True}, "no CUDA graph is captured under FSDP2"),
    (Words("channels_last"), "sgd", {"divides": True}, "channels_last: of images alone"),
    (Words(optimizer_kernels="loop"), "sgd", {"flat": True}, "one vector, which one kernel"),
    (Words(optimizer_kernels="fused"), "lamb", {}, "lamb runs tensor by tensor"),
    (Words(), "adamw-8bit", {}, "adamw-8bit: its state is kept in fp32 here"),
    (Words(optimizer_kernels="fused"), "adagrad", {}, "torch has no fused adagrad"),
]


@pytest.mark.parametrize(("words", "optimizer", "where", "message"), SUBSTITUTED)
def test_a_substituted_setting_is_reported(words, optimizer, where, message):
    found = [*omitted_words(words, optimizer, **{**ON_H100, **where})]
    assert [message in each for each in found] == [True] * bool(message)
