"""The page of collective operations: algorithms, their exact times, and their traffic.

It also lists the timing model where there is no exact time.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.collectives import (
    ALGORITHMS,
    GOSSIP_GRAPHS,
    OPERATIONS,
    Algorithm,
    Traffic,
    always_exact,
    gossip_turns,
    traffic,
)
from dpsim.network import FastestModel, InNetworkModel
from dpsim.network.libraries import GlooModel, MpiModel
from dpsim.network.libraries.nccl import cost, selection
from tools.reference_pages.markdown import heading, page, plain, prose, table

_HEAD = """\
Symbols: m ranks, S bytes of a rank's vector, n its elements, c bytes of the largest chunk, k \
chunks; a message
costs o seconds of its sender and alpha seconds on its way, a byte beta seconds on a link and \
gamma seconds where it is reduced.
Times are those of one uniform, non-blocking, full-duplex switch with all ranks starting \
together; there, rounds and flows give
the same to 1e-9 (a test says so). On a cluster the schedule is timed on its links instead: \
[network
models](../explanation/network-models.md).
"""
_LAYOUTS = ((8, 4), (6, 3))  # ranks, and ranks per node
_ELEMENTS = 960  # divides into the chunks of every algorithm
_OTHERS = {
    "all-reduce: in-network": InNetworkModel,
    "all-reduce: auto": FastestModel,
    "library: gloo": GlooModel,
    "library: mpi": MpiModel,
}


def collectives_page() -> str:
    """Return the page of operations, algorithms, gossip graphs and libraries."""
    return page(
        "Collective operations", "the registry of algorithms and their docstrings", _lines()
    )


def _lines() -> Iterator[str]:
    yield from _HEAD.splitlines()
    yield from ["", *heading(2, "Operations")]
    yield "busbw / algbw is what `dpsim collective` multiplies algbw by, as nccl-tests does."
    yield ""
    factor = "busbw / algbw at 8 ranks"
    yield from table(
        ["operation", factor],
        ([f"`{one.name}`", f"{one.bus_factor(8):g}"] for one in OPERATIONS.values()),
    )
    yield from heading(2, "Algorithms")
    yield from table(["operation", "algorithm", "time, s", "exact"], map(_time_row, ALGORITHMS))
    yield (
        "What each sends: rounds, and bytes as multiples of S, for 8 ranks on 2 nodes and 6 ranks "
        "on 2 nodes."
    )
    yield ""
    counts = [
        "operation",
        "algorithm",
        "rounds",
        "sent by the busiest",
        "sent in all",
        "unequal nodes",
    ]
    yield from table(counts, map(_count_row, ALGORITHMS))
    for one in ALGORITHMS:
        yield from heading(3, f"{one.operation}: {one.name}")
        yield from prose(_module(_own_function(one)))
    for title, model in _OTHERS.items():
        yield from heading(3, title)
        yield from prose(_module(model))
    yield from heading(3, "library: nccl")
    for part in (selection, cost):
        yield from prose(part.__doc__)
    yield from _gossip()


def _module(member: Any) -> str | None:
    """Return the docstring of the module that defines a function or class."""
    return sys.modules[_function(member).__module__].__doc__


def _own_function(one: Algorithm) -> Callable[..., Any]:
    """Return a function from the algorithm's file: chunked trees are compiled in a shared one."""
    return one.compile if one.exact_for is always_exact else one.exact_for


def _function(member: Any) -> Any:
    return member.func if isinstance(member, partial) else member


def _docstring(member: Callable[..., Any]) -> str:
    return plain(inspect.getdoc(_function(member)) or "").removesuffix(".")


def _seconds(one: Algorithm) -> str:
    """Return the formula in an exact time's docstring; "below" where it is longer than a line."""
    prefix, _, formula = _docstring(one.exact_time).partition(": ")
    return formula.partition("; a bound")[0] if prefix == "Seconds" else "below"


def _time_row(one: Algorithm) -> list[str]:
    exact = (
        "everywhere"
        if one.exact_for is always_exact
        else f"{_docstring(one.exact_for).lower()}; a bound elsewhere"
    )
    return [f"`{one.operation}`", f"`{one.name}`", _seconds(one), exact]


def _count_row(one: Algorithm) -> list[str]:
    schedules = [one.schedule(*layout) for layout in _LAYOUTS]
    # Counted by executing the schedules, not by the formulas in their docstrings.
    sent = [traffic(each, _ELEMENTS) for each in schedules]
    rounds = " / ".join(str(each.rounds) for each in schedules)
    return [
        f"`{one.operation}`",
        f"`{one.name}`",
        rounds,
        _times_s(sent, "busiest"),
        _times_s(sent, "total"),
        _unequal(one),
    ]


def _times_s(sent: list[Traffic], which: str) -> str:
    return " / ".join(f"{getattr(each, which) / _ELEMENTS:.4g}" for each in sent)


def _unequal(one: Algorithm) -> str:
    """Return whether it runs where nodes have unequal numbers of GPUs."""
    # A schedule for None is for nodes with unequal numbers of GPUs.
    try:
        one.schedule(6, None)
    except DpsimError:
        return "no"
    return "yes"


def _gossip() -> Iterator[str]:
    yield from heading(2, "Gossip graphs")
    yield from prose(_module(gossip_turns))
    turns = "turns until they begin again, 8 ranks"
    yield from table(
        ["graph", turns], ([f"`{graph}`", len(gossip_turns(graph, 8))] for graph in GOSSIP_GRAPHS)
    )
