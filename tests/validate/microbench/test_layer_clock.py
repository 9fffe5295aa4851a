"""Modules that sleep: where the time of a pass goes must be where they sleep."""

import time

import pytest

pytest.importorskip("torch")

import torch
from again import measured_again
from torch import nn

from validate.microbench.layer_clock import LayerClock
from validate.microbench.layers import trace_layers
from validate.microbench.models import BUILT_IN
from validate.ranks.device import CpuFace

pytestmark = pytest.mark.torch


class SlowBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, seconds):
        ctx.seconds = seconds
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ctx.seconds)
        return gradient, None


class Slow(nn.Module):
    def __init__(self, forward, backward):
        super().__init__()
        self.forward_s, self.backward_s = forward, backward
        self.linear = nn.Linear(3, 3)

    def forward(self, value):
        time.sleep(self.forward_s)
        return SlowBackward.apply(self.linear(value), self.backward_s)


@pytest.fixture
def clock():
    module = nn.Sequential(Slow(0.03, 0.01), nn.Sequential(Slow(0.01, 0.03)))
    clock = LayerClock(module, CpuFace())
    clock.backward_shares(torch.zeros(2, 3))  # the first backward pass of a process takes longer
    return clock


def test_forward_time_is_the_module_s_own(clock):
    def check(shares):
        assert set(shares) == {"", "0", "0.linear", "1", "1.0", "1.0.linear"}
        assert shares["0"] == pytest.approx(0.75, abs=0.1)
        assert shares["1.0"] == pytest.approx(0.25, abs=0.1)
        assert sum(shares.values()) == pytest.approx(1)

    measured_again(check, lambda: clock.forward_shares(torch.zeros(2, 3)))


def test_backward_time_is_that_of_the_module_whose_forward_made_the_node(clock):
    def check(shares):
        assert shares["0"] == pytest.approx(0.25, abs=0.1)
        assert shares["1.0"] == pytest.approx(0.75, abs=0.1)
        assert sum(shares.values()) == pytest.approx(1)

    measured_again(check, lambda: clock.backward_shares(torch.zeros(2, 3)))


def test_hooks_are_gone_afterwards(clock):
    clock.forward_shares(torch.zeros(2, 3))
    clock.backward_shares(torch.zeros(2, 3))
    assert not any(
        each._forward_hooks or each._forward_pre_hooks for each in clock._module.modules()
    )


@pytest.mark.parametrize(
    ("name", "parameters"), [("small-cnn", 294_314), ("small-transformer", 661_736)]
)
def test_built_in_models_are_traced_without_gaps(name, parameters):
    model = trace_layers(BUILT_IN[name])
    assert model.parameters == parameters
    assert model.notes == ()
    module = BUILT_IN[name].module("cpu")
    assert module(BUILT_IN[name].batch(2, "cpu")).shape[0] == 2
