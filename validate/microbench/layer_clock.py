"""Times each module of a torch model by itself, forward and backward, with hooks.

Time is cut at every change of the innermost running module, and each piece is attributed to that
module: in the forward pass by hooks on modules, in the backward pass by hooks on the nodes of the
graph, each of which belongs to the module whose forward made it. The cuts are marks of the device:
on a GPU, events on its stream. Hooks take time themselves: `shares` gives the proportions of a
pass, whose total must be measured without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from typing import Any

import torch

from dpsim.workload import NodeOwners, collect_outputs, hooked
from validate.ranks.device import DeviceFace

Around = Callable[[], AbstractContextManager[Any]]


class LayerClock:
    """Times one module's passes, within ``context`` (of a precision, say).

    Names are as in ``named_modules``: the module itself has the empty name.
    """

    def __init__(self, module: Any, face: DeviceFace, context: Around = nullcontext) -> None:
        self._module = module
        self._face = face
        self._context = context
        self._stack: list[str] = []
        self._owner = ""
        self._cuts: list[tuple[str, Any]] = []  # whose piece ends, and when
        self._nodes = NodeOwners(torch, self._cut)

    def forward_shares(self, batch: Any) -> dict[str, float]:
        """Return each module's share of a forward pass; they add up to 1."""
        with hooked(self._module, self._enter, self._leave), self._pass(), self._context():
            self._module(batch)
        return self._shares()

    def backward_shares(self, batch: Any) -> dict[str, float]:
        """Return each module's share of a backward pass; they add up to 1."""
        with hooked(self._module, self._claim_input, self._claim_output), self._context():
            outputs = outputs_of(self._module, batch)
        # Created outside the timed pass, which then only has the backward pass.
        gradients = [torch.ones_like(output) for output in outputs]
        with self._pass():
            torch.autograd.backward(outputs, gradients)
        self._nodes = NodeOwners(torch, self._cut)  # releases the graph
        return self._shares()

    @contextmanager
    def _pass(self) -> Iterator[None]:
        self._cuts, self._owner = [], ""
        self._face.synchronize()
        self._cut("")
        yield
        self._cut("")
        self._face.finish()

    def _cut(self, to: str) -> None:
        """End the current piece; the next one belongs to ``to``."""
        self._cuts.append((self._owner, self._face.mark()))
        self._owner = to

    def _shares(self) -> dict[str, float]:
        pieces: dict[str, float] = {}
        # A cut names the owner of the piece that ends there, and the first cut ends none.
        for (_, begin), (owner, end) in pairwise(self._cuts):
            pieces[owner] = pieces.get(owner, 0.0) + self._face.seconds(begin, end)
        total = sum(pieces.values())
        return {owner: taken / total for owner, taken in pieces.items()}

    def _enter(self, path: str, module: Any, args: Any, kwargs: Any) -> None:
        self._stack.append(path)
        self._cut(path)

    def _leave(self, module: Any, args: Any, output: Any) -> None:
        self._stack.pop()
        self._cut(self._stack[-1] if self._stack else "")

    def _claim_input(self, path: str, module: Any, args: Any, kwargs: Any) -> None:
        # The work between one child's output and the next one's input belongs to the parent module.
        self._nodes.claim((args, kwargs), self._stack[-1] if self._stack else "")
        self._stack.append(path)

    def _claim_output(self, module: Any, args: Any, output: Any) -> None:
        self._nodes.claim(output, self._stack.pop())


def outputs_of(module: Any, batch: Any) -> list[Any]:
    """Return the module's outputs for ``batch`` that have a gradient."""
    found: list[Any] = []
    collect_outputs(torch, module(batch), found)
    return found


def forward_and_backward(module: Any, batch: Any) -> None:
    """Run a forward and a backward pass with a gradient of ones; gradients accumulate."""
    outputs = outputs_of(module, batch)
    torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
