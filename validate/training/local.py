"""What a worker does alone: forward, backward, and its own optimiser's step."""

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
    a method of training that changes either vector in place has changed the model. Where a library
    divides or wraps the model itself, it is not ``flat``, and has neither; where a library
    ``divides`` it, it may have no weights before (`Task.outline`).
    """

    def __init__(
        self,
        training: Training,
        device: Any = "cpu",
        seed: int | None = None,
        task: Task | None = None,
        *,
        flat: bool = True,
        divides: bool = False,
    ) -> None:
        self.task = task or Digits(training, device)
        make = self.task.outline if divides else self.task.model
        self.model = make(training.seed if seed is None else seed)
        self.flat = flat
        self.optimiser: Any = None
        if flat:
            self.weights, self.gradient = flattened(self.model)
            self.optimiser = self.task.flat_optimiser(self.weights, self.gradient)

    def learn(
        self,
        inputs: Tensor,
        labels: Tensor,
        forward: Forward | None = None,
        between: Between = nullcontext,
    ) -> Tensor:
        """The mean loss of a batch, and its gradient, that of the mean over all passes.

        ``forward`` stands for the model where given. All passes but the last are taken in
        ``between``.
        """
        # Not set_to_none where it is flat, as torch's optimisers do: the parameters' gradients must
        # stay views.
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
        # A tensor still: to ask for its number would hold the host up until the device is done.
        return torch.stack(losses).sum()

    def update(self) -> None:
        """The weights move by what is in the gradient."""
        if self.optimiser is None:
            self.optimiser = self.task.optimiser(list(self.model.parameters()))
        self.optimiser.step()

    def final(self) -> Tensor:
        """All weights in one vector on the host, also where a library has divided them."""
        if self.flat:
            return self.weights.detach().cpu().clone()
        # Each rank has a shard of each parameter: all ranks must ask for the whole at once.
        parameters: list[Any] = list(self.model.parameters())
        whole = [getattr(each, "full_tensor", lambda own=each: own)() for each in parameters]
        return torch.cat([each.detach().cpu().reshape(-1) for each in whole])


def flattened(model: nn.Module) -> tuple[Tensor, Tensor]:
    """Weights and gradients, each as one vector that all parameters, in order, become views of.

    Each keeps its layout in memory: those of convolutions may be channels_last.
    """
    parameters = list(model.parameters())
    weights = torch.cat([_in_memory(parameter.detach()) for parameter in parameters])
    gradient = torch.zeros_like(weights)
    # What is split is a view: the parameters share the vectors' memory from here on.
    sizes = [parameter.numel() for parameter in parameters]
    parts = zip(parameters, weights.split(sizes), gradient.split(sizes), strict=True)
    for parameter, own_weights, own_gradient in parts:
        shape, strides = parameter.size(), _dense(parameter).stride()
        parameter.data = own_weights.as_strided(shape, strides, own_weights.storage_offset())
        parameter.grad = own_gradient.as_strided(shape, strides, own_gradient.storage_offset())
    return weights, gradient


def _in_memory(tensor: Tensor) -> Tensor:
    """Its elements in the order in which they lie in memory."""
    return _dense(tensor).as_strided((tensor.numel(),), (1,))


def _dense(tensor: Tensor) -> Tensor:
    """The same with nothing between its elements; a part of another tensor is copied."""
    last = tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else None
    if last is not None and last.stride() == tensor.stride():
        return tensor
    return tensor.contiguous()
