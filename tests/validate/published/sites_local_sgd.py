"""Local SGD between sites: the published and the predicted share of time spent computing.

The workers compute for as long as the run's inner steps took, and then wait for a ring of the same
number of bytes per parameter as published, over links of the stated rate. Where a source states a
range of rates, the prediction is at their geometric mean, and its bounds are at both ends. The
rates of the pairs of sites are not published: the simulator computes the time of the ring on graphs
with rates from the whole range, assigned to pairs at random. A library may reach much less than a
link's rate: the publishers of both runs state what theirs reached.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from packaged_columns import packaged_table

from dpsim.base.arrays import FloatArray
from dpsim.collectives import Chunking, Costs, RankLayout, algorithm
from dpsim.engine import prepare
from dpsim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class _Stated:
    """The values in the texts of a source: rates (B/s), and seconds of inner steps between syncs.

    ``slowest`` and ``fastest`` are rates of links, ``reached`` is the rate that the run's library
    reached. ``commanded`` is the number of bytes per parameter in the run's published command,
    where it differs from the table.
    """

    slowest: float
    fastest: float
    reached: float
    inner: float
    workers: int
    commanded: float | None = None


_MBIT = 1e6 / 8
# Workers of the first are those of the same run over three continents; rates and times are from the
# columns ``link`` and ``notes``. The table has fp16 for OpenDiLoCo, from memory; the command for
# this run in the README of PrimeIntellect-ai/OpenDiloco names no compression, which means fp32. For
# the reached rate: the README of PrimeIntellect-ai/prime, the library of the first run, claims up
# to 4 Gbit/s between data centres in the USA, "up to 40x" the rate of OpenDiLoCo.
_STATED: Mapping[str, _Stated] = {
    "intellect1-us": _Stated(500 * _MBIT, 4_000 * _MBIT, 4_000 * _MBIT, 38 * 60, 14),
    "opendiloco-1b": _Stated(
        127 * _MBIT, 935 * _MBIT, 4_000 * _MBIT / 40, 67.5 * 60, 4, commanded=4
    ),
}


@dataclass(frozen=True, slots=True)
class AtRates:
    """The shares of time spent computing, by the rate of all links (see `_Stated`).

    ``middle`` is at the geometric mean of the slowest and the fastest.
    """

    slowest: float
    middle: float
    fastest: float
    reached: float


@dataclass(frozen=True, slots=True)
class ComputeShare:
    """The share of time that a run spent computing, as ``published`` and as predicted.

    ``by_table`` is with the table's number of bytes, ``by_command`` with that of the run's
    published command, where it differs. ``on_graphs`` is with the table's bytes and the median of
    `seconds_on_graphs`.
    """

    name: str
    published: float
    by_table: AtRates
    by_command: AtRates | None
    on_graphs: float


def compute_shares() -> tuple[ComputeShare, ...]:
    """Return all runs whose links are stated; a link that is just "internet" predicts nothing."""
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
    """Return the shares where a ring moves ``nbytes``."""
    middle = math.sqrt(stated.slowest * stated.fastest)
    rates = (stated.slowest, middle, stated.fastest, stated.reached)
    chunking = Chunking(round(nbytes), stated.workers)
    layout, ring = RankLayout(stated.workers), algorithm("ring")
    # The latency of a round between sites is negligible beside minutes of transfer.
    costs = [Costs(alpha=0.0, beta=1 / rate) for rate in rates]
    return AtRates(*(_computed(stated, ring.exact_time(layout, chunking, cost)) for cost in costs))


def _computed(stated: _Stated, seconds: float) -> float:
    """Return the computing share of time if workers wait ``seconds`` after their inner steps."""
    return stated.inner / (stated.inner + seconds)


def seconds_on_graphs(name: str, graphs: int = 20, seed: int = 0) -> FloatArray:
    """Return the seconds of a run's ring on ``graphs`` graphs of its sites, with a rate per pair.

    The rates are spaced evenly, in logarithms, over the stated range. A site forwards for others
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
    """Return a scenario with a host per site and a link per pair, of the given rate (B/s)."""
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
