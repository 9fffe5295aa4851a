"""Calls of collectives in a step, which connect the parts of a strategy.

A call states its payload, and the positions in the program of a step (`dpsim.workload.Program`) at
which it is ready and its result is needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from dpsim.workload import Model, Program

# Bytes per element of gradients and of averaged models: fp32, also under automatic mixed precision.
# A model's own parameters have `Model.parameter_bytes`.
ELEMENT = 4

Payload = Literal["gradients", "models", "weights", "loss", "samples", "used parameters"]
Group = Literal["all", "group", "outer", "replicas"]


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """A collective on ``nbytes``, and its place in a step.

    It can start at position ``ready``; nothing after position ``needed`` starts before it ends.
    ``payload``: overlap policies merge and order gradients; codecs compress gradients and whole
    models. ``width`` is the bytes of one element.

    ``group``: the workers that exchange: all, each group's, the groups, or replicas of a shard.
    Calls of one group run one after the other; each group has its own communicator and does not
    wait for the others. ``lag``: steps that run before the result is needed. ``overtakes``: it runs
    before gradients that become ready at the same position.
    """

    name: str
    nbytes: int
    ready: int
    needed: int
    collective: str = "all-reduce"
    payload: Payload = "gradients"
    width: int = ELEMENT
    group: Group = "all"
    lag: int = 0
    overtakes: bool = False

    def parts(self, sizes: Iterable[int], needed: int) -> Iterator[CollectiveCall]:
        """Yield numbered parts of the call of ``sizes`` bytes, each needed at ``needed``."""
        # `replace` would take five times as long, and a step may have tens of thousands of calls.
        ready = self.ready
        attributes = (
            self.collective,
            self.payload,
            self.width,
            self.group,
            self.lag,
            self.overtakes,
        )
        for number, nbytes in enumerate(sizes):
            yield CollectiveCall(f"{self.name}/{number}", nbytes, ready, needed, *attributes)


Calls = tuple[CollectiveCall, ...]


def merged(name: str, calls: Calls) -> CollectiveCall:
    """Return one call with the payloads of all.

    It is ready when the last of the calls is, and needed when the first is.
    """
    # Only calls that have these in common can be merged; otherwise the unpacking fails.
    (collective,) = {call.collective for call in calls}
    (payload,) = {call.payload for call in calls}
    (width,) = {call.width for call in calls}
    ready = max(call.ready for call in calls)
    needed = min(call.needed for call in calls)
    nbytes = sum(call.nbytes for call in calls)
    return CollectiveCall(name, nbytes, ready, needed, collective, payload, width)


def in_order(planned: Calls, others: Calls) -> Calls:
    """Return the ``planned`` calls in their own order, with ``others`` inserted.

    Each other call comes before the first planned call that becomes ready later than it. A call
    that overtakes also comes before planned calls that become ready at the same position.
    """
    # Calls run one after the other, in the same order on every worker, as on one NCCL communicator:
    # a ready call must not queue behind one that is not. The overlap policy orders the gradients.
    order: list[CollectiveCall] = []
    left = deque(planned)
    for call in sorted(others, key=lambda other: other.ready):
        # Positions are whole numbers.
        last = call.ready - call.overtakes
        while left and left[0].ready <= last:
            order.append(left.popleft())
        order.append(call)
    return (*order, *left)


def gradients(
    model: Model,
    program: Program,
    collective: str,
    *,
    width: int | None = None,
    each_pass: bool = False,
) -> Calls:
    """Return one call per parameter tensor, in the order in which gradients become ready.

    They follow the last pass, with the sum over all passes, or with ``each_pass`` every pass.
    ``width``: bytes of an element; by default of the model's parameters.
    """
    width = width or model.parameter_bytes
    # Lists, since there are thousands of tensors and lists are much faster to index than arrays.
    elements, layers = model.tensors.elements.tolist(), model.tensors.layer.tolist()
    numbers = range(program.passes) if each_pass else (program.last,)
    end, calls = program.end, []
    for number in numbers:
        # Backward goes from the last layer to the first.
        for index in reversed(range(len(elements))):
            nbytes = elements[index] * width
            ready = program.after_backward(number, layers[index])
            name = f"tensor{index}"
            calls.append(CollectiveCall(name, nbytes, ready, end, collective, width=width))
    return tuple(calls)


def whole_model(model: Model, program: Program, collective: str) -> Calls:
    """Return one call on all trained parameters after the optimiser's step, to average models."""
    width, updated = model.parameter_bytes, program.updated
    nbytes = model.trained * width
    return (CollectiveCall("model", nbytes, updated, updated, collective, "models", width),)
