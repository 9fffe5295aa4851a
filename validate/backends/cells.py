"""One rank's part of the matrix: tries operations and reports whether every rank got them right.

Verdicts are exchanged through the store by which ranks met, so that they arrive whatever the
backend does. After a failure the process group is destroyed and the next operation gets a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch.distributed as dist

from validate.collectives import Collective, LibraryCollective, Part
from validate.ranks.launch import report_connected, write_row
from validate.ranks.processes import (
    World,
    choose,
    first_line,
    meet,
    place_from_environment,
    process_group,
)

_ELEMENTS = 1000
_WORKS = "works"


class _Message(Collective):
    """The test of ``send`` and ``recv``: the last rank gets the vector of rank 0."""

    def __init__(self, world: World) -> None:
        last = world.size - 1
        parts = (Part(0, _ELEMENTS, (0,), 0),) if world.rank == last else ()
        super().__init__(world, (_ELEMENTS, _ELEMENTS), parts)

    def run(self, source: Any, target: Any) -> None:
        if self.world.rank == 0:
            dist.send(source, self.world.size - 1)
        elif self.world.rank == self.world.size - 1:
            dist.recv(target, 0)


# The tests of operations other than the collectives of the same name.
TRIED: Mapping[str, Callable[[World], Collective]] = {"send": _Message, "recv": _Message}


def _library(operation: str, world: World) -> Collective:
    return LibraryCollective(operation.replace("_", "-"), _ELEMENTS, world)


def try_operations(world: World, operations: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each operation with the first error line of any rank, empty if it works on all.

    The results are the same on every rank.
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
            problem = _first_error(world, name, problem)
            yield operation, problem
            # A group in which an operation failed may hold messages that others still wait for.
            if problem:
                _attempt(stack.close)
                grouped_now = False


def _attempt(what: Callable[[], object]) -> str:
    """Return the first line of any exception, empty if there is none."""
    try:
        what()
    except Exception as error:
        return first_line(error)
    return ""


def _enter(stack: ExitStack, world: World, name: str) -> None:
    stack.enter_context(process_group(world, name))


def _once(world: World, operation: str) -> None:
    # Send distinctive values, since an operation that raises no error may have done nothing.
    collective = TRIED.get(operation, partial(_library, operation))(world)
    source, target = collective.buffers(in_place=not collective.out_of_place)
    collective.prepare(source, target)
    collective.run(source, target)
    world.synchronize()
    if wrong := collective.wrong(target):
        raise RuntimeError(f"{wrong} of {collective.elements_out} values were wrong")


def _first_error(world: World, name: str, problem: str) -> str:
    """Return the first error of all ranks, empty if there is none."""
    # Every rank reports, as the others wait for it.
    world.store.set(f"{name}/{world.rank}", problem or _WORKS)
    answers = [world.store.get(f"{name}/{rank}").decode() for rank in range(world.size)]
    return next((answer for answer in answers if answer != _WORKS), "")


def as_rank(backend: str, device: str, timeout: str, *operations: str) -> None:
    """Try operations on a started rank, and record ``operation`` and ``problem``."""
    place = place_from_environment()
    chosen, where = choose(place, backend, device)
    where.use()
    # The store's timeout is longer than a group's, since it reports an operation's timeout.
    world = World(place, chosen, where, meet(place, 3 * float(timeout)), float(timeout))
    report_connected()
    for operation, problem in try_operations(world, operations):
        write_row({"operation": operation, "problem": problem})
