"""What crashes cost, against simulations of jobs that crash, and Daly's checkpoint interval."""

import heapq
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from dpsim.disturbance import CrashesConfig, daly_interval, expected_seconds
from dpsim.disturbance.checkpoints import missing_share, waiting_share

YEAR = 365 * 24 * 3600.0


def best_interval(cost, mtbf):
    """The minimum of the exact expected time."""
    return minimize_scalar(
        lambda t: expected_seconds(1, t, cost, 0, mtbf),
        bounds=(1e-6 * mtbf, 3 * mtbf),
        method="bounded",
    ).x


@pytest.mark.parametrize("cost", [0.0001, 0.001, 0.01, 0.1, 0.5])
def test_daly_is_right_for_dear_ones_too(cost):
    assert daly_interval(cost, 1.0) == pytest.approx(best_interval(cost, 1.0), rel=0.01)


def test_daly_ends_at_the_mean_time_between_crashes():
    assert [daly_interval(cost, 10.0) for cost in (20.0, 50.0)] == [10.0, 10.0]


@given(cost=st.floats(1e-4, 1.0), other=st.floats(0.05, 20))
def test_no_other_interval_is_better_by_more_than_a_thousandth(cost, other):
    best = daly_interval(cost, 1.0)
    assert expected_seconds(1, best, cost, 0.1, 1.0) <= 1.001 * expected_seconds(
        1, best * other, cost, 0.1, 1.0
    )


def simulated_seconds(intervals, interval, cost, restart, mtbf, generator):
    """A job that computes ``intervals`` intervals, each with a checkpoint; a crash costs the work
    since and a restart.
    """
    clock, crash = 0.0, generator.exponential(mtbf)
    for _ in range(intervals):
        needed = interval + cost
        while clock + needed > crash:
            clock, needed = crash, restart + interval + cost
            crash = clock + generator.exponential(mtbf)
        clock += needed
    return clock


@pytest.mark.parametrize(
    ("interval", "cost", "restart"), [(0.1, 0.01, 0.05), (1.0, 0.1, 0.0), (0.5, 0.2, 0.5)]
)
def test_the_expected_time_is_that_of_a_simulation(interval, cost, restart):
    simulated = simulated_seconds(20_000, interval, cost, restart, 1.0, np.random.default_rng(0))
    assert simulated == pytest.approx(
        expected_seconds(20_000 * interval, interval, cost, restart, 1.0), rel=0.03
    )


def test_daly_beats_half_and_double_in_a_simulation():
    def seconds(factor):
        interval = factor * daly_interval(0.05, 1.0)
        return simulated_seconds(
            round(8000 / interval), interval, 0.05, 0.1, 1.0, np.random.default_rng(0)
        )

    assert seconds(1) < min(seconds(0.5), seconds(2))


def test_a_job_that_never_ends_takes_for_ever():
    assert expected_seconds(1, 1000, 1, 1, 1) == math.inf


def simulated_waiting(load, spares, crashes, generator):
    """Fraction of time in which more than ``spares`` workers are in repair, which takes 1 second;
    ``load`` crashes a second.
    """
    clock = waited = 0.0
    back: list[float] = []
    for _ in range(crashes):
        clock += generator.exponential(1 / load)
        while back and back[0] <= clock:
            heapq.heappop(back)
        heapq.heappush(back, clock + 1)
        if len(back) > spares:
            waited += back[0] - clock
            clock = heapq.heappop(back)
    return waited / clock


@pytest.mark.parametrize(("load", "spares"), [(0.5, 0), (1.0, 1), (3.0, 4), (10.0, 8)])
def test_waiting_for_a_spare_is_that_of_a_simulation(load, spares):
    simulated = simulated_waiting(load, spares, 40_000, np.random.default_rng(1))
    assert simulated == pytest.approx(waiting_share(load, spares), rel=0.06)


def test_without_spares_every_crash_waits_for_its_repair():
    assert waiting_share(0.25, 0) == pytest.approx(0.25 / 1.25)
    assert waiting_share(0.0, 3) == 0


def test_parts_of_a_jobs_time_add_up():
    parts = CrashesConfig(spares=8, repair_time="12 h").goodput(workers=16_384)
    assert parts.useful + parts.checkpoints + parts.lost + parts.waiting == pytest.approx(1)
    assert min(parts.useful, parts.checkpoints, parts.lost, parts.waiting) > 0
    assert parts.mtbf == pytest.approx(50_000 * 3600 / 16_384)


def test_more_workers_lose_more_and_more_spares_less():
    goodput = [
        CrashesConfig(spares=4, repair_time="12 h").goodput(workers).useful
        for workers in (1, 8, 64, 512, 4096, 16_384)
    ]
    assert goodput == sorted(goodput, reverse=True)
    spares = [
        CrashesConfig(spares=spares, repair_time="12 h").goodput(4096).useful for spares in range(8)
    ]
    assert spares == sorted(spares)


def test_a_worker_that_only_restarts_needs_no_spare():
    assert CrashesConfig().goodput(16_384) == CrashesConfig(spares=8).goodput(16_384)
    assert CrashesConfig().goodput(16_384).waiting == 0


def test_a_stated_interval_is_kept_and_the_default_is_no_worse():
    stated = CrashesConfig(checkpoint_interval="1 h").goodput(4096)
    assert stated.interval == 3600
    assert CrashesConfig().goodput(4096).useful >= stated.useful


@pytest.mark.parametrize(("load", "spares"), [(0.5, 0), (0.5, 1), (3, 2), (20, 25), (1000, 980)])
def test_missing_workers_are_the_mean_past_the_spares(load, spares):
    """Summed one by one, in logarithms: chances of large loads are below the smallest float."""
    chances = (
        math.exp(number * math.log(load) - load - math.lgamma(number + 1)) * (number - spares)
        for number in range(spares, int(load + 40 * math.sqrt(load) + 40))
    )
    assert missing_share(load, spares) == pytest.approx(sum(chances), rel=1e-9)
