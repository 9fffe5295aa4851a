"""Collectives over sizes, with nccl-tests' columns: the backend's own, and dpsim's schedules.

A repetition begins with a barrier and ends when the slowest rank's device is done; ``time_s`` is
the median over repetitions. ``in_a_row_s`` is the mean of as many without a pause between, like
nccl-tests': shorter for small messages. Sizes, counts, algbw and busbw are computed as in
nccl-tests. Every output of every repetition is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import torch

from dpsim.collectives import OPERATIONS, algorithm, algorithm_names
from validate.collectives import (
    CHUNKED,
    TYPES,
    Collective,
    Executor,
    LibraryCollective,
    Timing,
    measure,
)
from validate.microbench.benchmark import Benchmark, Row, rate, time_columns
from validate.microbench.settings import ALL, LIBRARY, Settings
from validate.ranks.processes import World

_REDUCING_OPERATIONS = ("all-reduce", "reduce", "reduce-scatter")
_ROOTED_OPERATIONS = ("broadcast", "reduce", "gather", "scatter")


def _rows(world: World, settings: Settings) -> Iterator[Row]:
    for operation, name, datatype in _cases(settings):
        for size in _sizes(settings, operation):
            collective = _collective(operation, name, size, datatype, world)
            timings = _measure(collective, settings)
            yield _row(collective, timings, operation, name, datatype)


def _cases(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Operation, algorithm and type."""
    for operation in settings.operations:
        names = _algorithms(settings, operation)
        for name, datatype in product(names, settings.datatypes):
            yield operation, name, datatype


def _algorithms(settings: Settings, operation: str) -> tuple[str, ...]:
    if ALL in settings.algorithms:
        return LIBRARY, *algorithm_names(operation)
    return settings.algorithms


def _sizes(settings: Settings, operation: str) -> list[int]:
    return [0] if operation == "barrier" else settings.sizes()


def _collective(operation: str, name: str, size: int, datatype: str, world: World) -> Collective:
    dtype = TYPES[datatype]
    # Sizes below one element count as one; only a barrier sends nothing.
    elements = max(size // _element_bytes(dtype), 1 if size else 0)
    if name == LIBRARY:
        return LibraryCollective(operation, elements, world, dtype)
    return Executor(algorithm(name, operation).schedule(world.size), elements, world, dtype)


def _measure(collective: Collective, settings: Settings) -> dict[bool, Timing]:
    """Return timings by whether it ran in place, for the ways that it supports."""
    ways = {False: collective.out_of_place, True: collective.in_place}
    return {
        in_place: measure(
            collective,
            in_place=in_place,
            repetitions=settings.iterations,
            warmup=settings.warmup,
        )
        for in_place, can in ways.items()
        if can
    }


def _row(
    collective: Collective,
    timings: dict[bool, Timing],
    operation: str,
    name: str,
    datatype: str,
) -> Row:
    ranks = collective.world.size
    # A schedule's all-to-all has a vector for each rank, the library's is one vector in chunks.
    vectors = ranks if operation == "all-to-all" and name != LIBRARY else 1
    elements = collective.elements_in // vectors
    size = elements * _element_bytes(collective.dtype)
    return {
        "operation": operation,
        "algorithm": name,
        "bytes": size,
        "count": elements // ranks if operation in CHUNKED else elements,
        "type": datatype,
        "redop": "sum" if operation in _REDUCING_OPERATIONS else "none",
        "root": 0 if operation in _ROOTED_OPERATIONS else -1,
        **_columns("", timings.get(False), operation, size, ranks),
        **_columns("in_place_", timings.get(True), operation, size, ranks),
    }


def _element_bytes(dtype: Any) -> int:
    return int(torch.empty(0, dtype=dtype).element_size())


def _columns(prefix: str, timing: Timing | None, operation: str, size: int, ranks: int) -> Row:
    """Return time, rates and wrong values of one way; None for a way that was not run."""
    names = (
        "time_s",
        "times_s",
        "since_last_s",
        "in_a_row_s",
        "algbw_Bps",
        "busbw_Bps",
        "wrong",
    )
    if timing is None:
        return {prefix + name: None for name in names}
    since_last = timing.since_last
    columns = time_columns(timing.times.tolist())
    columns["since_last_s"] = None if since_last is None else since_last.tolist()
    columns["in_a_row_s"] = timing.in_a_row_s
    algbw = rate(size, columns["time_s"])
    columns["algbw_Bps"] = algbw
    # Each link's traffic in an ideal ring, so that rates of different operations are comparable.
    bus_factor = OPERATIONS[operation].bus_factor(ranks)
    columns["busbw_Bps"] = None if algbw is None else algbw * bus_factor
    columns["wrong"] = timing.wrong
    return {prefix + name: columns[name] for name in names}


COLLECTIVES = Benchmark(
    "collectives", "collective operations over sizes, in nccl-tests' columns", True, _rows
)
