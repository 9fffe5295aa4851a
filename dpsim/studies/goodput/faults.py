"""The interruptions of one run of a job: random faults and their relapses."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.disturbance import Cause
from dpsim.studies.goodput.machine import Machine

_EARLIER = 10  # mean lengths of an episode of relapses, simulated before the run


class Fault(NamedTuple):
    """An interruption by ``cause``; the hardware is back after ``repair`` seconds.

    ``units`` of the cause fail. ``relapses`` has, for each unit that fails again, the seconds from
    its return and the fault.
    """

    cause: Cause
    repair: float
    units: int = 1
    relapses: tuple[tuple[float, Fault], ...] = ()

    @property
    def workers(self) -> float:
        """The number of workers that the fault removes."""
        return self.units * self.cause.workers


@dataclass(frozen=True, slots=True)
class Faults:
    """The random draws of one run: first faults, and gaps (s) between them at full strength.

    ``earlier``: relapses of faults before the run, each with its time.
    """

    gaps: FloatArray
    faults: list[Fault]
    earlier: list[tuple[float, Fault]]


class Coming:
    """The coming faults of a run."""

    def __init__(self, faults: Faults) -> None:
        self._faults, self._taken = faults, 0
        # Seconds to the next fault at full strength. A smaller job uses them up more slowly,
        # because its faults have a lower rate.
        self._gap = float(faults.gaps[0])
        self._first_at = math.inf
        # A heap of (time, a number that breaks ties, fault).
        numbered = enumerate(faults.earlier)
        self._relapses = [(when, number, fault) for number, (when, fault) in numbered]
        self._number = len(self._relapses)
        heapq.heapify(self._relapses)

    def next_at(self, now: float, strength: float) -> float:
        """Return the time of the next fault if a share ``strength`` of the job is running."""
        self._first_at = now + self._gap / strength
        if not self._relapses:
            return self._first_at
        # A relapse that was due while the job waited occurs when it continues.
        return min(self._first_at, max(now, self._relapses[0][0]))

    def advance(self, seconds: float, strength: float) -> None:
        """Advance by ``seconds`` in which a share ``strength`` of the job was running."""
        self._gap -= seconds * strength

    def take(self, now: float) -> Fault:
        """Take the fault that occurs ``now``, at the time `next_at` returned."""
        if now == self._first_at:
            fault = self._faults.faults[self._taken]
            self._taken += 1
            self._gap = float(self._faults.gaps[self._taken])
        else:
            fault = heapq.heappop(self._relapses)[2]
        for after, relapse in fault.relapses:
            self._number += 1
            heapq.heappush(self._relapses, (now + fault.repair + after, self._number, relapse))
        return fault


def draw_faults(machine: Machine, seconds: float, generator: np.random.Generator) -> Faults:
    """Draw more interruptions than occur in ``seconds``; repairs are lognormal."""
    expected = machine.first_rate * seconds
    # Interruptions are at most a Poisson process: ten standard deviations above the mean, and some
    # more for means near 0. Drawn at once, so that all checkpoint intervals have the same ones.
    count = math.ceil(expected + 10 * math.sqrt(expected) + 20)
    rates = np.array([cause.first_rate for cause in machine.causes])
    chosen = generator.choice(len(rates), count, p=rates / rates.sum())
    causes = [machine.causes[number] for number in chosen]
    repairs = _repairs(causes, generator)
    gaps = generator.exponential(1 / machine.first_rate, count)
    units = _units(causes, machine.workers, generator)
    faults = [_with_relapses(fault, generator) for fault in map(Fault, causes, repairs, units)]
    return Faults(gaps, faults, _earlier_relapses(machine, generator))


def relevant_seconds(cause: Cause) -> float:
    """Return how many seconds before a run its first faults may still have relapses in it."""
    if not cause.relapse:
        return 0.0
    return _EARLIER * (cause.repair_time + cause.relapse_time) / (1 - cause.relapse)


def _earlier_relapses(
    machine: Machine, generator: np.random.Generator
) -> list[tuple[float, Fault]]:
    """Return the relapses in the run of faults before it, in the steady state."""
    due = []
    for cause in machine.causes:
        if not cause.relapse:
            continue
        before = relevant_seconds(cause)
        count = int(generator.poisson(cause.first_rate * before))
        moments = (-before * generator.random(count)).tolist()
        repairs = _repairs([cause] * count, generator)
        struck = _units([cause] * count, machine.workers, generator)
        for began, repair, units in zip(moments, repairs, struck, strict=True):
            ahead = [(began, _with_relapses(Fault(cause, repair, units), generator))]
            while ahead:
                now, fault = ahead.pop()
                if now >= 0:
                    due.append((now, fault))
                    continue
                back = now + fault.repair
                ahead += [(back + after, relapse) for after, relapse in fault.relapses]
    return due


def _repairs(causes: Sequence[Cause], generator: np.random.Generator) -> list[float]:
    """Draw the seconds of one repair for each cause."""
    spread = np.array([cause.repair_spread for cause in causes])
    mean = np.array([cause.repair_time for cause in causes])
    # Divided by exp(spread^2 / 2), the mean of exp(spread z).
    drawn = mean * np.exp(spread * generator.standard_normal(len(causes)) - spread**2 / 2)
    return list(drawn.tolist())


def _units(causes: Sequence[Cause], workers: int, generator: np.random.Generator) -> list[int]:
    """Draw how many units a fault of each cause hits at once, at most the job's."""
    together = np.array([cause.together for cause in causes])
    if (together == 1).all():
        return [1] * len(causes)
    there = np.array([workers / cause.workers if cause.workers else 1.0 for cause in causes])
    drawn = np.minimum(generator.geometric(1 / together), np.ceil(there).astype(int))
    return list(drawn.tolist())


def _with_relapses(first: Fault, generator: np.random.Generator) -> Fault:
    """Add each unit's relapses to a fault."""
    if not first.cause.relapse:
        return first
    chains = [_relapses(first.cause, generator) for _ in range(first.units)]
    return first._replace(relapses=tuple(chain for chain in chains if chain is not None))


def _relapses(cause: Cause, generator: np.random.Generator) -> tuple[float, Fault] | None:
    """Draw a unit's relapses: seconds from its return, and a fault that has the next relapse."""
    count = int(generator.geometric(1 - cause.relapse)) - 1
    next_one: tuple[float, Fault] | None = None
    for repair in _repairs([cause] * count, generator):
        after = float(generator.exponential(cause.relapse_time))
        following = () if next_one is None else (next_one,)
        next_one = after, Fault(cause, repair, relapses=following)
    return next_one
