"""Calls of collectives in a step, through which the parts of a strategy meet.

A call says what is communicated, what it waits for and what waits for it: positions in the
program of a step (`dpsim.workload.Program`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from dpsim.workload import Model, Program

# Bytes: gradients and the models that are averaged are kept in fp32, also under automatic mixed
# precision. Of a model's own, which may be in bf16, `Model.parameter_bytes` says.
ELEMENT = 4

Payload = Literal["gradients", "models", "weights", "loss", "samples", "used parameters"]
Group = Literal["all", "group", "outer", "replicas"]


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """A collective on ``nbytes``, and where in a step it stands.

    It can start at position ``ready``; nothing past position ``needed`` starts before its end. Of
    the payloads, gradients are what overlap policies merge and order; gradients and whole models
    are what codecs compress. ``width`` is the bytes of one of its elements.

    ``group``: who meets, all workers, those of each group, the groups, or replicas of a shard.
    Calls of one follow one another; those of another have a communicator of their own, and do not
    wait for them. ``lag``:
    steps that go on before it is needed. ``overtakes``: it goes before gradients that are ready
    where it is.
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
        """The call in numbered parts of ``sizes`` bytes, each of which is needed at ``needed``."""
        # Not by `replace`, which takes five times as long: a step may have tens of thousands.
        ready = self.ready
        as_here = (self.collective, self.payload, self.width, self.group, self.lag, self.overtakes)
        for number, nbytes in enumerate(sizes):
            yield CollectiveCall(f"{self.name}/{number}", nbytes, ready, needed, *as_here)


def merged(name: str, calls: tuple[CollectiveCall, ...]) -> CollectiveCall:
    """One call with the payloads of all.

    It waits for the last of them, and is waited for where the first of them is.
    """
    # Only what is alike can travel as one: anything else fails here.
    (collective,) = {call.collective for call in calls}
    (payload,) = {call.payload for call in calls}
    (width,) = {call.width for call in calls}
    ready = max(call.ready for call in calls)
    needed = min(call.needed for call in calls)
    nbytes = sum(call.nbytes for call in calls)
    return CollectiveCall(name, nbytes, ready, needed, collective, payload, width)


def in_order(
    planned: tuple[CollectiveCall, ...], others: tuple[CollectiveCall, ...]
) -> tuple[CollectiveCall, ...]:
    """The ``planned`` calls in their own order, with ``others`` put in between.

    Each of the others stands before the first planned call that becomes ready later than it, or if
    it overtakes, no sooner.
    """
    # Calls go one after the other, in one order on every worker, as on one communicator of NCCL:
    # what is ready must not stand behind what is not. The order of gradients is the policy's.
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
) -> tuple[CollectiveCall, ...]:
    """One call per parameter tensor, in the order in which gradients become ready.

    They are those of the last pass, which hold the sum of all passes, or those of ``each_pass``.
    ``width``: as the model keeps them if None.
    """
    width = width or model.parameter_bytes
    # Of thousands of tensors: numbers of lists are read many times as fast as those of arrays.
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


def whole_model(model: Model, program: Program, collective: str) -> tuple[CollectiveCall, ...]:
    """One call on all trained parameters after the optimiser's step, where models are averaged."""
    width, updated = model.parameter_bytes, program.updated
    nbytes = model.trained * width
    return (CollectiveCall("model", nbytes, updated, updated, collective, "models", width),)
