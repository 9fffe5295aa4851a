"""Predict the fault rate and down time of half of a set of servers from the other half.

The table has the faults of two thirds of 400 servers in 348 days (stepfun-ai/InfiniteHBD-Trace,
SIGCOMM 2025); servers without any fault are not in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from packaged_columns import packaged_table

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.disturbance.fault_trace import relapse_chance

SERVERS, DAYS = 267, 349
_DRAWS = 400
_BETWEEN = (0.05, 0.95)


@dataclass(frozen=True, slots=True)
class RateCheck:
    """The shares of held-out halves that lie inside the 90 % interval predicted from the others.

    ``rate``: of the number of faults, which come in episodes with relapses; ``down``: of the mean
    down time of a fault, with servers as the unit; ``poisson``: of the number of faults if all were
    independent.
    """

    rate: float
    down: float
    poisson: float


def left_out_nodes(halves: int = 1000, seed: int = 0) -> RateCheck:
    """Split the servers in two at random many times and predict one half from the other."""
    generator = np.random.default_rng(seed)
    servers = _by_server()
    inside = np.zeros(3)
    for _ in range(halves):
        order = generator.permutation(SERVERS)
        known, left_out = servers[order[: SERVERS // 2]], servers[order[SERVERS // 2 :]]
        faults, down = left_out.sum(axis=0)
        # For independent faults, a count of k gives the expected count a gamma of shape k.
        rates = generator.poisson(generator.gamma(known[:, 0].sum(), size=_DRAWS))
        inside += [
            _is_inside(_with_relapses(known[:, 0], len(left_out), generator), faults),
            _is_inside(_down_times(known, len(left_out), generator), down / faults),
            _is_inside(rates * len(left_out) / len(known), faults),
        ]
    return RateCheck(*(inside / halves).tolist())


def _with_relapses(known: FloatArray, count: int, generator: np.random.Generator) -> IntArray:
    """Draw the faults of ``count`` servers, in episodes as frequent and long as in ``known``.

    The uncertainty left by few known servers is drawn too: the frequency of episodes and the
    probability of a relapse.
    """
    chance = relapse_chance(known)
    first = known.sum() * (1 - chance)
    often = generator.gamma(first, size=_DRAWS) * count / len(known)
    # Uniform prior (Laplace): one success and one failure before the first fault.
    ends = generator.beta(first + 1, known.sum() - first + 1, size=_DRAWS)
    episodes = np.maximum(generator.poisson(often), 1)
    return np.asarray(episodes + generator.negative_binomial(episodes, ends))


def _down_times(known: FloatArray, count: int, generator: np.random.Generator) -> FloatArray:
    """Draw the mean down time of a fault of ``count`` servers by resampling the known ones.

    The first draw resamples the known servers (their uncertainty), the second draws ``count``
    servers from that sample (chance).
    """
    alike = np.full(len(known), 1 / len(known))
    anew = generator.multinomial(len(known), alike, size=_DRAWS) / len(known)
    faults, down = (generator.multinomial(count, anew) @ known).T
    return np.asarray(down / faults)


def _is_inside(drawn: FloatArray | IntArray, value: float) -> bool:
    low, high = np.quantile(drawn, _BETWEEN)
    return bool(low <= value <= high)


def _by_server() -> FloatArray:
    """Return the faults and days down of each server; a fault without both ends counts 0 days."""
    rows = packaged_table("failure_events.csv", ("node", "days"))
    found = np.zeros((SERVERS, 2))
    servers = np.unique(rows.text("node"), return_inverse=True)[1]
    days = [float(each) if each else 0.0 for each in rows.text("days").tolist()]
    np.add.at(found[:, 0], servers, 1)
    np.add.at(found[:, 1], servers, days)
    return found
