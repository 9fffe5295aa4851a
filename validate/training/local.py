"""A worker's local computing: forward, backward, and its own optimiser's step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from validate.training.settings import Training
from validate.training.task import Digits, Forward, Task

Between = Callable[[], AbstractContextManager[Any]]


class Replica:
    """A model and its optimiser.

    ``weights`` and ``gradient`` are flat vectors of which the model's parameters are views, so that
    a method of training that changes either vector in place has changed the model. If a library
    shards or wraps the model itself, it is not ``flat`` and has neither; if a library ``divides``
    it, it may have no weights at first (`Task.outline`).
    """

    def __init__(
        self,
        training: Training,
        task: Task | None = None,
        seed: int | None = None,
        *,
        flat: bool = True,
        divides: bool = False,
    ) -> None:
        self.task = task or Digits(training)
        make = self.task.outline if divides else self.task.model
        self.model = make(training.seed if seed is None else seed)
        self.flat = flat
        self.optimiser: Any = None
        if flat:
            self.weights, self.gradient = flatten(self.model)
            self.optimiser = self.task.flat_optimiser(self.weights, self.gradient)

    def compute_gradient(
        self,
        inputs: Tensor,
        labels: Tensor,
        forward: Forward | None = None,
        between: Between = nullcontext,
    ) -> Tensor:
        """Return the mean loss of a batch over all passes, and compute its gradient.

        ``forward`` replaces the model if given. All passes but the last run in ``between``.
        """
        # Not set_to_none (torch's default) if flat: the parameters' gradients must stay views.
        if self.flat:
            self.gradient.zero_()
        else:
            self.model.zero_grad(set_to_none=True)
        losses = []
        for number in range(self.task.passes):
            last = number == self.task.passes - 1
            with nullcontext() if last else between():
                loss = self.task.loss(forward or self.model, inputs, labels) / self.task.passes
                loss.backward()
            losses.append(loss.detach())
        # Still a tensor: reading its number would block the host until the device is done.
        return torch.stack(losses).sum()

    def update(self) -> None:
        """Update the weights by the gradient."""
        if self.optimiser is None:
            self.optimiser = self.task.optimiser(list(self.model.parameters()))
        self.optimiser.step()

    def final(self) -> Tensor:
        """Return all weights in one vector on the host, even if a library has sharded them."""
        if self.flat:
            return self.weights.detach().cpu().clone()
        # Each rank has a shard of each parameter, so all ranks must gather at the same time.
        parameters: list[Any] = list(self.model.parameters())
        whole = [getattr(each, "full_tensor", lambda own=each: own)() for each in parameters]
        return torch.cat([each.detach().cpu().reshape(-1) for each in whole])


def flatten(model: nn.Module) -> tuple[Tensor, Tensor]:
    """Make all parameters, in order, views of one vector of weights and one of gradients.

    Each keeps its memory layout: convolutions may be channels_last.
    """
    parameters = list(model.parameters())
    weights = torch.cat([_in_memory(parameter.detach()) for parameter in parameters])
    gradient = torch.zeros_like(weights)
    # split returns views: from here on the parameters share the vectors' memory.
    sizes = [parameter.numel() for parameter in parameters]
    parts = zip(parameters, weights.split(sizes), gradient.split(sizes), strict=True)
    for parameter, own_weights, own_gradient in parts:
        shape, strides = parameter.size(), _dense(parameter).stride()
        parameter.data = own_weights.as_strided(shape, strides, own_weights.storage_offset())
        parameter.grad = own_gradient.as_strided(shape, strides, own_gradient.storage_offset())
    return weights, gradient


def _in_memory(tensor: Tensor) -> Tensor:
    """Return a tensor's elements in the order of their memory."""
    return _dense(tensor).as_strided((tensor.numel(),), (1,))


def _dense(tensor: Tensor) -> Tensor:
    """Return the tensor without gaps in memory; a part of another tensor is copied."""
    last = tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else None
    if last is not None and last.stride() == tensor.stride():
        return tensor
    return tensor.contiguous()
