"""A run whose steps had not settled says so."""

from dataclasses import replace

import numpy as np
import pytest

from dpsim import simulate
from dpsim.engine import run_scenario
from dpsim.engine.steadiness import drift, start_up, unsettled
from dpsim.engine.steps import Steps


def test_steps_that_grow_drift_and_equal_ones_do_not():
    assert drift(np.ones((30, 4))) == 0
    assert drift(np.linspace(1, 1.1, 30)[:, None]) == pytest.approx(0.0657, abs=1e-3)
    assert drift(np.linspace(1.1, 1, 30)[:, None]) < 0
    assert drift(np.linspace(1, 1.005, 30)[:, None]) == 0  # below 1 %


def test_noise_is_no_drift():
    random = np.random.default_rng(0)
    found = [drift(1 + 0.1 * random.standard_normal((60, 1))) for _ in range(300)]
    assert sum(each != 0 for each in found) <= 2


def test_periods_are_taken_whole():
    """A long step every ten is no drift, wherever the thirds begin."""
    steps = np.where(np.arange(95) % 10 == 9, 5.0, 1.0)[:, None]
    assert drift(steps, 10) == 0


def test_stale_workers_that_still_run_ahead_are_not_reported_as_steady(tiny):
    """Worker 0 takes twice as long. The others run ahead until the bound stops them at its pace:
    before that their steps take 10.5 s, after it 21 s.
    """
    slow = {"slow": [{"workers": [0], "factor": 2}]}
    sync = {"kind": "ssp", "staleness": 12}
    scenario = tiny(4, sync=sync, disturbance=slow, run={"steps": 30})
    early = run_scenario(scenario, settle=False).result
    assert not early.steady
    assert early.to_json()["steady"] is False
    (warning,) = early.warnings
    assert warning.startswith("steps had not settled: the last third is ")
    settled = simulate(tiny(4, sync=sync, disturbance=slow, run={"steps": 30, "warmup": 40}))
    assert settled.steady
    assert settled.warnings == []


def test_the_warm_up_is_longer_where_steps_have_not_settled(tiny):
    """As above; after the bound stops them, all take 21 s. The answer says what it has done."""
    slow = {"slow": [{"workers": [0], "factor": 2}]}
    sync = {"kind": "ssp", "staleness": 12}
    result = simulate(tiny(4, sync=sync, disturbance=slow, run={"steps": 30}))
    assert result.steady
    np.testing.assert_allclose(result.steps.step, 21, rtol=1e-9)
    assert result.notes == ("the first 60 steps do not count, instead of 0",)


@pytest.mark.parametrize(
    ("aggregation", "sync"),
    [("allreduce", "ssp"), ("parameter-server", "ssp"), ("gossip", "bsp")],
)
def test_one_slow_worker_of_64_gives_the_same_after_any_number_of_steps(tiny, aggregation, sync):
    """It takes 27.4 % longer, and all at its pace in the end. Counted from the sixth step on, 50,
    200 and 1,000 steps gave means that were 4, 1 and 0.2 % too short.
    """
    slow = {"slow": [{"workers": [0], "factor": 1.274}]}
    cluster = {"network": {"nic": {"rate": "1 PB/s", "latency": 0}, "fabric": "single-switch"}}
    steps = (25, 50) if aggregation == "parameter-server" else (50, 200, 1000)
    for number in steps:
        scenario = tiny(
            64,
            aggregation=aggregation,
            sync=sync,
            cluster=cluster,
            disturbance=slow,
            run={"steps": number, "warmup": 5},
        )
        result = simulate(scenario)
        update = 0 if aggregation == "parameter-server" else 0.5
        assert result.step_time_s["mean"] == pytest.approx(1.274 * (10 + update), rel=1e-4)
        assert result.steady


def test_workers_that_run_ahead_at_an_even_pace_have_not_settled(tiny):
    """A bound that is far away: steps are alike, and the gap grows by half of them. No warm-up that
    is tried is as long as the bound.
    """
    slow = {"slow": [{"workers": [0], "factor": 2}]}
    scenario = tiny(4, sync={"kind": "ssp", "staleness": 10_000}, disturbance=slow)
    scenario = scenario.model_copy(update={"run": scenario.run.model_copy(update={"steps": 30})})
    result = simulate(scenario)
    assert not result.steady
    assert "fast workers still run ahead, by 37.5% of their steps" in result.warnings[0]
    assert result.notes == ()


@pytest.mark.parametrize("aggregation", ["allreduce", "parameter-server"])
@pytest.mark.parametrize("steps", [2, 5, 8, 30])
def test_a_bound_that_few_steps_do_not_reach_is_warmed_up_to(tiny, aggregation, steps):
    """Worker 0 takes three times as long. It is waited for once the others are ten steps ahead,
    also by workers who push and pull on their own.
    """
    scenario = tiny(
        4,
        aggregation=aggregation,
        sync={"kind": "ssp", "staleness": 10},
        cluster={"network": {"nic": {"rate": "1 PB/s", "latency": 0}, "fabric": "single-switch"}},
        disturbance={"slow": [{"workers": [0], "factor": 3}]},
        run={"steps": steps, "warmup": 5},
    )
    result = simulate(scenario)
    update = 0 if aggregation == "parameter-server" else 0.5
    np.testing.assert_allclose(result.steps.step.mean(axis=0), 3 * (10 + update), rtol=1e-3)
    assert result.steady


def test_chance_outpaces_nobody():
    random = np.random.default_rng(0)

    def found(steps, workers, slowest):
        times = 1 + 0.1 * random.standard_normal((steps, workers))
        times[:, 0] += slowest
        return unsettled(replace(Steps.empty(steps, workers), compute=times))

    for workers in (2, 4, 64):
        for steps in (2, 4, 8):
            few = 0 if workers * steps > 4 else 20  # four numbers say little of their spread
            assert sum(found(steps, workers, 0) is not None for _ in range(300)) <= 3 + few
            assert found(steps, workers, 3) is not None or workers * steps == 4


@pytest.mark.parametrize("steps", [1, 3, 10])
def test_communication_that_piles_up_is_paid(tiny, steps):
    """An all-reduce of 2 MB takes 20 s, a step 10.5 s: up to twenty may be on their way, and as many
    do not hold it up. Then a step takes as long as an all-reduce.
    """
    slow = {"network": {"nic": {"rate": "100 kB/s", "latency": 0}, "fabric": "single-switch"}}
    scenario = tiny(2, sync={"kind": "ssp", "staleness": 20}, cluster=slow, run={"steps": steps})
    early = run_scenario(scenario, settle=False).result
    np.testing.assert_allclose(early.steps.step, 10.5)
    assert "communication piles up, it takes 190.5% of the time" in early.warnings[0]
    settled = simulate(scenario)
    np.testing.assert_allclose(settled.steps.step, 20, rtol=1e-6)
    assert settled.steady


def test_steps_that_send_more_than_links_carry_have_not_settled(tiny):
    """An all-reduce of 2 MB at 1 MB/s, 2 s of a step of 12.5 s; were it in 1 s, half would be late."""
    run = run_scenario(tiny(2))
    assert run.unsettled is None
    capacities = run.job.network.capacities
    assert run.link_loads.shares(capacities).max() == pytest.approx(2 / 12.5, rel=1e-6)
    del run.unsettled, run.changing
    run.link_loads = replace(run.link_loads, time_s=1.0)
    assert run.unsettled == "steps send 200.0% of what links carry in them"
    assert run.link_loads.utilisation(capacities).max() == 1


def test_what_happens_at_a_time_of_its_own_is_not_warmed_over(tiny):
    """Half the rate from 150 s on: the requested run shows it."""
    links = [{"link": "*", "at": "150 s", "factor": 0.5}]
    scenario = tiny(2, disturbance={"links": links}, run={"steps": 30})
    result = simulate(scenario)
    assert not result.steady
    assert result.notes == ()
    assert result.steps.step[0, 0] < result.steps.step[-1, 0]


def test_first_steps_that_are_unlike_the_others_are_found():
    """Ten of 200 that are 20 % shorter make the mean 1 % shorter; two that are 5 % shorter, 0.05 %."""
    steps = np.ones((200, 3))
    steps[:10] = 0.8
    assert start_up(steps) == pytest.approx(0.01)
    steps[:10] = 1
    steps[:2] = 0.95
    assert start_up(steps) == 0
    random = np.random.default_rng(0)
    found = [start_up(1 + 0.1 * random.standard_normal((60, 1))) for _ in range(300)]
    assert sum(each != 0 for each in found) <= 2
    assert sum(start_up(random.lognormal(0, 0.5, (60, 8))) != 0 for _ in range(300)) <= 3
