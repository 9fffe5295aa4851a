"""Copies rank 0's model and optimiser to every rank.

Needed at the start, and after rank 0 has loaded a checkpoint.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


def replicate(model: nn.Module, optimiser: Any = None, group: Any = None) -> None:
    """Broadcast rank 0's model, and an optimiser's state, to all of ``group``.

    The model is its parameters and buffers. ``optimiser`` is one of torch's or anything else with
    their ``state_dict`` and ``load_state_dict``.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0, group=group)
    if optimiser is not None:
        replicate_optimiser(optimiser, next(model.parameters()).device, group)


def replicate_optimiser(optimiser: Any, device: Any, group: Any = None) -> None:
    """Broadcast an optimiser's settings and state."""
    # The outline goes first: momentum and the like are created by the first step, so a rank that
    # has taken none does not know what to receive.
    state = optimiser.state_dict()
    outline = [_outlined(state)]
    dist.broadcast_object_list(outline, src=0, group=group)
    if dist.get_rank() != 0:
        state = _filled(outline[0], device)
    for tensor in _tensors(state):
        dist.broadcast(tensor, src=0, group=group)
    if dist.get_rank() != 0:
        optimiser.load_state_dict(state)


def _outlined(value: Any) -> Any:
    """Return the same nest of dicts and lists, with tensors that have shapes but no numbers.

    They are on the meta device; scalars are kept.
    """

    def outlined(tensor: Tensor) -> Tensor:
        return tensor.to("meta") if tensor.dim() else tensor.cpu()

    return _each(value, outlined)


def _filled(value: Any, device: Any) -> Any:
    """Return the same nest, with memory for the numbers."""

    def filled(tensor: Tensor) -> Tensor:
        # Scalars came with the outline.
        return torch.empty_like(tensor, device=device) if tensor.dim() else tensor

    return _each(value, filled)


def _each(value: Any, change: Any) -> Any:
    if isinstance(value, dict):
        return {key: _each(inner, change) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_each(inner, change) for inner in value)
    return change(value) if isinstance(value, torch.Tensor) else value


def _tensors(value: Any) -> list[Tensor]:
    found: list[Tensor] = []
    _each(value, found.append)
    return [tensor for tensor in found if tensor.dim()]
