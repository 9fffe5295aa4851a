"""Faults of servers: whether those of half of them foretell rate and down time of the other half.

The table has the faults of two thirds of 400 servers in 348 days (stepfun-ai/InfiniteHBD-Trace,
SIGCOMM 2025); servers without any fault are not in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsim.base.arrays import FloatArray
from validate.published.tables import packaged_table

SERVERS, DAYS = 267, 348
_DRAWS = 400
_BETWEEN = (0.05, 0.95)


@dataclass(frozen=True, slots=True)
class RateCheck:
    """Shares of the left-out halves that lie inside the 90 % interval of the others.

    ``rate`` and ``down``: of faults, and of the mean down time of one, with servers as the unit;
    ``poisson``: of the rate, if all faults were independent.
    """

    halves: int
    rate: float
    down: float
    poisson: float


def left_out_nodes(halves: int = 100, seed: int = 0) -> RateCheck:
    """Split the servers in two at random, again and again, and predict one from the other."""
    generator = np.random.default_rng(seed)
    servers = _by_server()
    inside = np.zeros(3)
    for _ in range(halves):
        order = generator.permutation(SERVERS)
        known, left_out = servers[order[: SERVERS // 2]], servers[order[SERVERS // 2 :]]
        faults, down = left_out.sum(axis=0)
        drawn = _predicted(known, len(left_out), generator)
        # Independent faults: a count of k says that the expected one is a gamma of shape k.
        rates = generator.poisson(generator.gamma(known[:, 0].sum(), size=_DRAWS))
        # Sums over servers: faults, down time of a fault, and faults if they were independent.
        inside += [
            _is_inside(drawn[:, 0], faults),
            _is_inside(drawn[:, 1] / drawn[:, 0], down / faults),
            _is_inside(rates * len(left_out) / len(known), faults),
        ]
    return RateCheck(halves, *(inside / halves).tolist())


def _predicted(known: FloatArray, count: int, generator: np.random.Generator) -> FloatArray:
    """Sums over ``count`` servers: drawn from those known, themselves drawn anew each time.

    The first draw is for what so few known ones leave open, the second for chance.
    """
    sums = []
    for _ in range(_DRAWS):
        anew = known[generator.integers(len(known), size=len(known))]
        sums.append(anew[generator.integers(len(known), size=count)].sum(axis=0))
    return np.array(sums)


def _is_inside(drawn: FloatArray, value: float) -> bool:
    low, high = np.quantile(drawn, _BETWEEN)
    return bool(low <= value <= high)


def _by_server() -> FloatArray:
    """Faults and days down of each server; a fault without both its ends counts 0 days."""
    rows = packaged_table("failure_events.csv", ("node", "days"))
    found = np.zeros((SERVERS, 2))
    servers = np.unique(rows.text("node"), return_inverse=True)[1]
    days = [float(each) if each else 0.0 for each in rows.text("days").tolist()]
    np.add.at(found[:, 0], servers, 1)
    np.add.at(found[:, 1], servers, days)
    return found
