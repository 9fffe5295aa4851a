"""Tracks the active module of a torch model.

Uses hooks on modules in the forward pass, and on the graph's nodes in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any


@contextmanager
def hooked(module: Any, enter: Callable[..., None], leave: Callable[..., None]) -> Iterator[None]:
    """Call ``enter`` and ``leave`` around forward passes of ``module`` and its submodules.

    ``enter(path, module, args, kwargs)`` is called before each pass, ``leave(module, args,
    output)`` after it. Paths are as in ``named_modules``.
    """
    handles = []
    for path, part in module.named_modules():
        handles.append(part.register_forward_pre_hook(partial(enter, path), with_kwargs=True))
        handles.append(part.register_forward_hook(leave))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class NodeOwners:
    """The nodes of an autograd graph, each with the module whose forward created it.

    ``at_node(path)`` is called when a node's backward begins.
    """

    def __init__(self, torch: Any, at_node: Callable[[str], None]) -> None:
        self._torch = torch
        self._at_node = at_node
        self._owners: dict[Any, str] = {}

    def claim(self, value: Any, path: str) -> None:
        """Assign the nodes that led to ``value`` and that have no module yet to ``path``."""
        found: list[Any] = []
        collect_outputs(self._torch, value, found)
        waiting = [tensor.grad_fn for tensor in found]
        while waiting:
            # Stop at nodes with an owner: the nodes below are older, and have owners as well.
            node = waiting.pop()
            if node is None or node in self._owners:
                continue
            self._owners[node] = path
            node.register_prehook(lambda gradients: self._at_node(path))
            waiting += [below for below, _ in node.next_functions]


def collect_outputs(torch: Any, value: Any, found: list[Any]) -> None:
    """Append all tensors with a gradient in a tensor, mapping, list or tuple to ``found``."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            found.append(value)
    elif isinstance(value, dict):
        for part in value.values():
            collect_outputs(torch, part, found)
    elif isinstance(value, (list, tuple)):
        for part in value:
            collect_outputs(torch, part, found)
