"""One rank's part of the matrix: tries operations and says whether every rank got them right.

Verdicts are exchanged through the store by which ranks met, so that they arrive whatever the
backend does. After a failure the process group is taken down and the next operation gets a new one.

    python -m validate.backends.cells BACKEND DEVICE TIMEOUT OPERATION...

in processes that `validate.ranks.launch.launch` started.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch.distributed as dist

from validate.collectives import Collective, LibraryCollective, Part
from validate.ranks.launch import connected, write_row
from validate.ranks.processes import (
    World,
    choose,
    first_line,
    grouped,
    meet,
    place_from_environment,
)

_ELEMENTS = 1000
_WORKS = "works"


class _Message(Collective):
    """What ``send`` and ``recv`` are tried with: the last rank gets the vector of rank 0."""

    def __init__(self, world: World) -> None:
        last = world.size - 1
        parts = (Part(0, _ELEMENTS, (0,), 0),) if world.rank == last else ()
        super().__init__("send", "send", world, (_ELEMENTS, _ELEMENTS), parts)

    def run(self, source: Any, target: Any) -> None:
        if self.world.rank == 0:
            dist.send(source, self.world.size - 1)
        elif self.world.rank == self.world.size - 1:
            dist.recv(target, 0)


# What operations are tried with, other than the collectives of this name.
TRIED: Mapping[str, Callable[[World], Collective]] = {"send": _Message, "recv": _Message}


def _library(operation: str, world: World) -> Collective:
    return LibraryCollective(operation.replace("_", "-"), _ELEMENTS, world)


def try_operations(world: World, operations: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each operation with the first error line of any rank, nothing where it works on all.

    The answer is the same on every rank.
    """
    with ExitStack() as stack:
        grouped_now = False
        for operation in operations:
            name = f"{world.backend}-{world.face.kind}-{operation}"
            problem = ""
            if not grouped_now:
                problem = _attempt(partial(_enter, stack, world, name))
                grouped_now = True
            if not problem:
                problem = _attempt(partial(_once, world, operation))
            problem = _agreed(world, name, problem)
            yield operation, problem
            # A group in which an operation failed may hold what others still wait for.
            if problem:
                _attempt(stack.close)
                grouped_now = False


def _attempt(what: Callable[[], object]) -> str:
    """Nothing, or what went wrong: whatever that was, it is the answer."""
    try:
        what()
    except Exception as error:
        return first_line(error)
    return ""


def _enter(stack: ExitStack, world: World, name: str) -> None:
    stack.enter_context(grouped(world, name))


def _once(world: World, operation: str) -> None:
    # With values that tell: an operation that returns without an error may still have done nothing.
    collective = TRIED.get(operation, partial(_library, operation))(world)
    source, target = collective.buffers(in_place=not collective.out_of_place)
    collective.prepare(source, target)
    collective.run(source, target)
    world.synchronize()
    if wrong := collective.wrong(target):
        raise RuntimeError(f"{wrong} of {collective.elements_out} values were wrong")


def _agreed(world: World, name: str, said: str) -> str:
    """The first error of all ranks, nothing where there is none."""
    # Every rank says something, for which the others wait.
    world.store.set(f"{name}/{world.rank}", said or _WORKS)
    answers = [world.store.get(f"{name}/{rank}").decode() for rank in range(world.size)]
    return next((answer for answer in answers if answer != _WORKS), "")


def main(arguments: Sequence[str]) -> None:
    """Tries and records: ``operation`` and ``problem``."""
    backend, device, timeout, *operations = arguments
    place = place_from_environment()
    chosen, where = choose(place, backend, device)
    where.use()
    # The store waits longer than a group: it carries the news that an operation did not end in
    # time.
    world = World(place, chosen, where, meet(place, 3 * float(timeout)), float(timeout))
    connected()
    for operation, problem in try_operations(world, operations):
        write_row({"operation": operation, "problem": problem})


if __name__ == "__main__":
    main(sys.argv[1:])
