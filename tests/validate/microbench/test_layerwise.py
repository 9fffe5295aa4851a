"""LARS and LAMB against one step by hand."""

import math

import pytest

pytest.importorskip("torch")

import torch

from validate.microbench.layerwise import Lamb, Lars

pytestmark = pytest.mark.torch


def stepped(kind, gradient, steps=1):
    """Weights 3 and 4, of norm 5, after steps of rate 0.1 along the same gradient."""
    weights = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = kind([weights], lr=0.1)
    for _ in range(steps):
        weights.grad = torch.tensor(gradient)
        optimizer.step()
    return weights.tolist()


def test_lars_scales_the_gradient_to_the_norm_of_the_weights():
    assert stepped(Lars, [0.0, 2.0]) == pytest.approx([3.0, 4.0 - 0.1 * 5])
    # Then the velocity is 0.9 of that, and the weights' norm what is left of it.
    left = math.hypot(3.0, 3.5)
    assert stepped(Lars, [0.0, 2.0], 2) == pytest.approx([3.0, 3.5 - 0.1 * (0.9 * 5 + left)])


def test_lamb_takes_adams_step_as_long_as_the_weights():
    """Adam's first step is the gradient's sign, here of norm sqrt(2)."""
    moved = 0.1 * 5 / math.sqrt(2)
    assert stepped(Lamb, [7.0, -1.0]) == pytest.approx([3.0 - moved, 4.0 + moved], rel=1e-5)


@pytest.mark.parametrize("kind", [Lars, Lamb])
def test_frozen_weights_stay_and_a_gradient_of_0_moves_nothing(kind):
    assert stepped(kind, [0.0, 0.0]) == [3.0, 4.0]
    frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    kind([frozen], lr=0.1).step()
    assert frozen.tolist() == [1.0, 1.0]
