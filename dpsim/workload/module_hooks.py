"""Track a torch model's active module, by hooks on modules (forward) and nodes (backward)."""

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
    """The module whose forward created each node of an autograd graph.

    ``at_node(path)`` is called when a node's backward begins.
    """

    def __init__(self, torch: Any, at_node: Callable[[str], None]) -> None:
        self._torch = torch
        self._at_node = at_node
        self._owners: dict[Any, str] = {}

    def claim(self, value: Any, path: str) -> None:
        """Assign the nodes of ``value``'s graph that have no module yet to ``path``."""
        found: list[Any] = []
        collect_outputs(self._torch, value, found)
        stack = [tensor.grad_fn for tensor in found]
        while stack:
            # Nodes behind one with an owner are older, and have owners too.
            node = stack.pop()
            if node is None or node in self._owners:
                continue
            self._owners[node] = path
            node.register_prehook(lambda gradients: self._at_node(path))
            stack += [below for below, _ in node.next_functions]


def collect_outputs(torch: Any, value: Any, found: list[Any]) -> None:
    """Append the tensors in ``value`` (tensor, mapping, list, tuple) that need a gradient."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            found.append(value)
    elif isinstance(value, dict):
        for part in value.values():
            collect_outputs(torch, part, found)
    elif isinstance(value, (list, tuple)):
        for part in value:
            collect_outputs(torch, part, found)
