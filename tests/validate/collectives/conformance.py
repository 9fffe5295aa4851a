"""Run by each of five ranks of a test.

Algorithms among the first m of them against what arithmetic gives; and all the rest.
"""

import time
from dataclasses import replace

import numpy as np
import torch

from dpsim.collectives import ALGORITHMS, OPERATIONS, Schedule, execute
from dpsim.collectives.all_reduces import double_binary_tree, ring
from validate.collectives.executor import Executor
from validate.collectives.library import LibraryCollective
from validate.collectives.payload import TYPES, values
from validate.collectives.timing import measure
from validate.ranks.launch import report_connected, write_row
from validate.ranks.processes import Place, World, joined

OPTIONS = [double_binary_tree.with_chunks(3)]


def schedules(ranks):
    yield from (algorithm.schedule(ranks) for algorithm in [*ALGORITHMS, *OPTIONS])
    if ranks == 4:
        yield from (each.schedule(4, 2) for each in ALGORITHMS if each.depends_on_nodes)


def differs_from_arithmetic(world, schedule, elements, **options):
    """Elements anywhere in this rank's vector that are not those of `execute`, and those that are
    not as promised.
    """
    executor = Executor(schedule, elements, world, **options)
    source, target = executor.buffers(in_place=True)
    executor.prepare(source, target)
    executor.run(source, target)
    inputs = np.stack(
        [values(rank, 0, len(target), torch.float32).numpy() for rank in range(world.size)]
    )
    return executor.wrong(target) + int(
        (target.numpy() != execute(schedule, inputs)[world.rank]).sum()
    )


def among_the_first(ranks, world, what, sizes=(37,), **options):
    """Every schedule; ranks that are not among the first do nothing."""
    first = replace(world, place=Place(world.rank, ranks))
    for schedule in schedules(ranks) if world.rank < ranks else ():
        wrong = sum(
            differs_from_arithmetic(first, schedule, elements, **options) for elements in sizes
        )
        case = f"{schedule.operation}/{schedule.algorithm}/{schedule.chunks}"
        write_row({"what": what, "ranks": ranks, "case": case, "wrong": wrong})


def types(world):
    """Out of place, twice each."""
    schedule = ring.ALGORITHM.schedule(world.size)
    for name, dtype in TYPES.items():
        timing = measure(Executor(schedule, 1001, world, dtype), repetitions=1, in_place=False)
        write_row({"what": "type", "case": name, "wrong": timing.wrong})


class LateWorld(World):
    """Each rank comes out of a barrier 50 ms after the one before it."""

    def barrier(self):
        World.barrier(self)
        time.sleep(0.05 * self.rank)


def own_starts(world):
    late = LateWorld(world.place, world.backend, world.face, world.store, world.timeout)
    timing = measure(
        Executor(ring.ALGORITHM.schedule(world.size), 1001, late), repetitions=2, warmup=0
    )
    write_row(
        {
            "what": "starts",
            "begins": timing.begins.tolist(),
            "ends": timing.ends.tolist(),
            "one_clock": timing.one_clock,
        }
    )


def library(world):
    for operation in OPERATIONS:
        for elements in (1, 4001):
            collective = LibraryCollective(operation, elements, world)
            ways = [
                way
                for way, can in ((True, collective.in_place), (False, collective.out_of_place))
                if can
            ]
            wrong = sum(
                measure(collective, repetitions=1, warmup=0, in_place=way).wrong for way in ways
            )
            write_row({"what": "library", "case": f"{operation}/{elements}", "wrong": wrong})


def a_false_promise(world):
    """A ring that claims to broadcast leaves sums where rank 0's input was promised."""
    phases = ring.ALGORITHM.schedule(world.size).phases
    false = Schedule("broadcast", "ring", world.size, world.size, phases)
    write_row(
        {
            "what": "false",
            "wrong": measure(Executor(false, 100, world), repetitions=1, warmup=0).wrong,
        }
    )


if __name__ == "__main__":
    with joined("gloo", "cpu", 30) as the_world:
        report_connected()
        for m in range(1, the_world.size + 1):
            among_the_first(m, the_world, "schedule", (1, 37) if m == 3 else (37,))
        among_the_first(
            3, replace(the_world, backend="nccl"), "grouped"
        )  # what NCCL is given, carried out by gloo
        among_the_first(3, the_world, "staged", through_host=True)
        types(the_world)
        own_starts(the_world)
        library(the_world)
        a_false_promise(the_world)
