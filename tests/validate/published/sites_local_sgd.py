"""Local SGD between sites: the share of time that published runs computed, and the predicted one.

The workers compute for as long as the run's inner steps took, and then wait for a ring of as many
bytes a parameter as it sent, over links of the stated rate. Where a source states a range of rates,
the prediction is at their geometric mean, and its bounds are at both ends. Which pair of sites has
which rate is not published: on graphs of rates all over the range, given to pairs by chance, the
simulator says how long the ring takes. What a library reaches over a link may be far less than the
link has: the publishers of both runs say what theirs reached.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.collectives import Chunking, Costs, RankLayout, algorithm
from dpsim.engine import prepare
from dpsim.scenario import Scenario
from validate.published.tables import packaged_table


@dataclass(frozen=True, slots=True)
class _Stated:
    """What a source says in words: rates (B/s), and seconds of inner steps between two syncs.

    ``slowest`` and ``fastest`` are rates of links, ``reached`` what the run's library made of them.
    ``commanded`` is the bytes a parameter by the run's published command, where the table has
    others.
    """

    slowest: float
    fastest: float
    reached: float
    inner: float
    workers: int
    commanded: float | None = None


_MBIT = 1e6 / 8
# Workers of the first are those of the same run over three continents; rates and times are those
# of the columns ``link`` and ``notes``. The table has fp16 for OpenDiLoCo, from memory; the command
# for this run in the README of PrimeIntellect-ai/OpenDiloco names no compression, which is fp32.
# What was reached: PrimeIntellect-ai/prime, the library of the first run, says in its README that
# it makes up to 4 Gbit/s between data centres in the USA, "up to 40x" what OpenDiLoCo had made.
_STATED: Mapping[str, _Stated] = {
    "intellect1-us": _Stated(500 * _MBIT, 4_000 * _MBIT, 4_000 * _MBIT, 38 * 60, 14),
    "opendiloco-1b": _Stated(
        127 * _MBIT, 935 * _MBIT, 4_000 * _MBIT / 40, 67.5 * 60, 4, commanded=4
    ),
}


@dataclass(frozen=True, slots=True)
class AtRates:
    """Shares of time that are computed, by the rate of all links: `_Stated` says which these are.

    ``middle`` is at the geometric mean of the slowest and the fastest.
    """

    slowest: float
    middle: float
    fastest: float
    reached: float


@dataclass(frozen=True, slots=True)
class ComputeShare:
    """The share of time that a run computed, as ``published`` and as predicted.

    ``by_table`` is with as many bytes as the table has, ``by_command`` with those that the run's
    published command sends, where these are others. ``on_graphs`` is with the table's bytes and
    the median of `seconds_on_graphs`.
    """

    name: str
    published: float
    by_table: AtRates
    by_command: AtRates | None
    on_graphs: float


def compute_shares() -> tuple[ComputeShare, ...]:
    """All runs whose links are stated; a link that is just "internet" predicts nothing."""
    columns = ("id", "params", "bytes_per_param", "compute_utilisation")
    rows = packaged_table("wan_local_sgd.csv", columns)
    found = []
    for name, *numbers in zip(rows.text("id"), *map(rows.numbers, columns[1:]), strict=True):
        stated = _STATED.get(name)
        if stated is None:
            continue
        parameters, width, published = map(float, numbers)
        by_command = None
        if stated.commanded is not None:
            by_command = _at_rates(stated, parameters * stated.commanded)
        on_graphs = _computed(stated, float(np.median(seconds_on_graphs(name))))
        by_table = _at_rates(stated, parameters * width)
        found.append(ComputeShare(name, published, by_table, by_command, on_graphs))
    return tuple(found)


def _at_rates(stated: _Stated, nbytes: float) -> AtRates:
    """The shares where a ring moves ``nbytes``."""
    middle = math.sqrt(stated.slowest * stated.fastest)
    rates = (stated.slowest, middle, stated.fastest, stated.reached)
    chunking = Chunking(round(nbytes), stated.workers)
    layout, ring = RankLayout(stated.workers), algorithm("ring")
    # Beside minutes of transfer the latency of a round between sites is nothing.
    costs = [Costs(alpha=0.0, beta=1 / rate) for rate in rates]
    return AtRates(*(_computed(stated, ring.exact_time(layout, chunking, cost)) for cost in costs))


def _computed(stated: _Stated, seconds: float) -> float:
    """The share of time that is computed where workers wait so many seconds after inner steps."""
    return stated.inner / (stated.inner + seconds)


def seconds_on_graphs(name: str, graphs: int = 20, seed: int = 0) -> FloatArray:
    """Seconds of a run's ring on ``graphs`` graphs of its sites, each pair with a rate of its own.

    The rates lie evenly, by their logarithms, over the stated range. A site forwards for others
    where that is faster than the link between them.
    """
    stated = _STATED[name]
    rows = packaged_table("wan_local_sgd.csv", ("id", "params", "bytes_per_param"))
    row = rows.text("id").tolist().index(name)
    nbytes = round(float((rows.numbers("params") * rows.numbers("bytes_per_param"))[row]))
    pairs = list(combinations(range(stated.workers), 2))
    rates = np.geomspace(stated.slowest, stated.fastest, len(pairs))
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(graphs):
        by_pair = dict(zip(pairs, generator.permutation(rates).tolist(), strict=True))
        model = prepare(_sites(stated.workers, by_pair)).collectives["all-reduce"][0]
        found.append(float(model.finish(np.zeros(stated.workers), nbytes).finishes.max()))
    return np.array(found)


def _sites(workers: int, rates: Mapping[tuple[int, int], float]) -> Scenario:
    """A scenario with a host at each site, and a link of its own rate (B/s) between any two."""
    edges: list[dict[str, Any]] = [
        {"between": [f"node{site}/*", f"site{site}"], "rate": "1 Tbit/s", "latency": "1 us"}
        for site in range(workers)
    ]
    edges += [
        {"between": [f"site{a}", f"site{b}"], "rate": f"{rate} B/s", "latency": "1 ms"}
        for (a, b), rate in rates.items()
    ]
    network = {"fabric": "custom", "edges": edges}
    text = {
        "name": "sites",
        "cluster": {"nodes": workers, "node": "testbed-host", "network": network},
        "workload": {"model": "resnet50", "batch_per_gpu": 1},
        "strategy": {
            "aggregation": {"kind": "allreduce", "algorithm": "ring", "library": "ideal"},
            "overlap": {"kind": "sequential"},
        },
    }
    return Scenario.model_validate(text)
