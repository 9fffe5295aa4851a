"""Independent workers may keep a rhythm that does not last: it is no steady state."""

import numpy as np
import pytest

from dpsim import load_scenario, simulate
from dpsim.engine import run as settling
from dpsim.engine import run_scenario
from dpsim.engine.steadiness import departure, running_ahead
from dpsim.engine.steps import Steps

# 4 workers that compute 10 s, two of them 13 s; 2 MB to one server take one 8/3 s each way.
LOCKED = {
    "aggregation": {
        "kind": "parameter-server",
        "servers": 1,
        "colocated": False,
        "update_rate": "1 PB/s",
    },
    "sync": "asp",
    "cluster": {
        "network": {"nic": {"rate": "750 kB/s", "latency": 0}, "fabric": "single-switch"},
    },
}
TWO_SLOW = {"slow": [{"workers": [2, 3], "factor": 1.3}]}
SETTLED = 20.0  # s: the mean of 2,000 steps that begin after 32,000
JITTER = {"jitter": {"kind": "lognormal", "sigma": 0.5}}


def timed(*columns):
    """Steps that compute for so many seconds."""
    steps = Steps.empty(len(columns[0]), len(columns))
    steps.compute[:] = np.array(columns).T
    return steps


@pytest.mark.parametrize("seed", range(3))
def test_a_rhythm_that_ends_after_thousands_of_steps_is_not_the_answer(tiny, seed):
    run = {"steps": 50, "warmup": 5, "seed": seed}
    scenario = tiny(4, **LOCKED, disturbance=TWO_SLOW, run=run)
    combined = run_scenario(scenario, settle=False)
    assert combined.step_time == pytest.approx(24.87, rel=1e-3)
    assert combined.unsettled is None  # nothing within the steps shows it
    result = simulate(scenario)
    assert result.steady
    assert result.step_time_s["mean"] == pytest.approx(SETTLED, rel=0.1)


def test_a_run_without_warmup_warns_that_later_steps_differ(tiny):
    scenario = tiny(4, **LOCKED, disturbance=TWO_SLOW, run={"steps": 50, "warmup": 0})
    result = simulate(scenario)
    np.testing.assert_array_equal(
        result.steps.step, run_scenario(scenario, settle=False).steps.step
    )
    assert not result.steady
    (warning,) = result.warnings
    assert " later ones are " in warning
    assert "% shorter on average; raise run.warmup" in warning


def test_workers_that_start_at_once_drift_apart(tiny):
    """16 equal ones at 4 servers: in step they would take 10 + 32/3 + 32/3 s, were all there at
    once. Apart they take 16 s, as those do whose computing varies by 1 %, after 400 steps of it.
    """
    settings = {**LOCKED, "aggregation": {**LOCKED["aggregation"], "servers": 4}}
    scenario = tiny(16, **settings, run={"steps": 20, "warmup": 5})
    assert run_scenario(scenario, settle=False).step_time > 19
    assert simulate(scenario).step_time_s["mean"] == pytest.approx(16, rel=0.1)


@pytest.fixture
def simulations(monkeypatch):
    """The jobs that are simulated."""
    jobs, simulated = [], settling.simulate_job

    def simulate_job(job, *args, **more):
        jobs.append(job)
        return simulated(job, *args, **more)

    monkeypatch.setattr(settling, "simulate_job", simulate_job)
    return jobs


def test_steps_with_jitter_count_as_many_as_given(tiny, simulations):
    """One run, and one of more steps that agrees with it."""
    result = simulate(tiny(4, **LOCKED, disturbance=JITTER, run={"steps": 20, "warmup": 5}))
    assert result.steps.step.shape == (20, 4)
    assert result.notes == ()
    assert len(simulations) == 2
    assert simulations[1].scenario.disturbance == simulations[0].scenario.disturbance


def test_a_large_run_is_not_simulated_again(tiny, simulations):
    """64 workers that push and pull in 25 steps: 3,200 messages, of which four times as many would
    be too many.
    """
    settings = {**LOCKED, "aggregation": {**LOCKED["aggregation"], "servers": 32}}
    simulate(tiny(64, **settings, disturbance=JITTER, run={"steps": 20, "warmup": 5}))
    assert len(simulations) == 1


def test_a_longer_run_reports_the_steps_that_count(tiny):
    """Also after a warm-up that was made longer."""
    settings = {**LOCKED, "aggregation": {**LOCKED["aggregation"], "update_rate": "7.5 MB/s"}}
    found = [
        simulate(
            tiny(4, **settings, disturbance=TWO_SLOW, run={"steps": 50, "warmup": 5, "seed": s})
        )
        for s in range(4)
    ]
    longer = [result for result in found if len(result.notes) == 2]
    assert longer
    for result in longer:
        count, warmup = result.notes
        number = len(result.steps.step)
        assert count.startswith(f"{number} steps count, instead of 50, which are ")
        assert count.endswith(" on average, with computing that varies by 1 %")
        assert warmup == f"the first {number - 1} steps do not count, instead of 5"
        assert result.job.scenario.disturbance.jitter.sigma == 0.01


def test_a_mean_that_steps_say_themselves_to_be_uncertain_of_is_no_departure():
    """Of 16 steps with a deviation of 0.1 s the mean is good to 0.025 s: three times that is chance.
    1 % of it always is.
    """
    steps = timed(np.tile([0.9, 1.1], 8) * np.sqrt(15 / 16) + 1 - np.sqrt(15 / 16))
    assert departure(steps, timed([1.07])) == 0
    assert departure(steps, timed([1.08])) == pytest.approx(0.08)
    assert departure(timed([1.0, 1.0]), timed([1.009])) == 0
    assert departure(timed([1.0, 1.0]), timed([0.98])) == pytest.approx(-0.02)


def test_what_others_on_the_network_cost_is_no_running_ahead():
    """Few steps: communication that differs by chance, of workers that compute alike."""
    steps = timed(*np.ones((4, 5)))
    steps.exposed_comm[:] = np.random.default_rng(0).uniform(0, 1, (5, 4))
    assert running_ahead(steps)
    assert running_ahead(steps, independent_workers=True) is None


@pytest.mark.parametrize("name", ["parameter-server", "ssp", "parameter-server-asp"])
def test_ssp_whose_bound_nobody_comes_to_answers_as_asp_does(name):
    asp, ssp = (
        simulate(load_scenario(f"scenarios/{name}.yaml", [f"strategy.sync={sync}"]))
        for sync in ("{kind: asp}", "{kind: ssp, staleness: 1000000}")
    )
    np.testing.assert_array_equal(ssp.steps.step, asp.steps.step)
    assert ssp.notes == asp.notes
    # Where some are slower for good, the bound holds the others in the end.
    assert (ssp.warnings == asp.warnings) == (name == "parameter-server")


def test_fragments_that_take_longer_than_there_are_steps_for_pile_up(tiny):
    """Each worker is a group, with an outer step: 2 MB take 4 s of latency in a ring of 2, and 2 s.

    They may be 20 steps late. So a step takes as long as they do, 16 s with a latency of 7 s, once
    as many are on their way, which no step before it shows.
    """
    outer = {"every": 1, "overlap": 20}
    sync = {"kind": "local-sgd", "every": 1, "group": 1, "outer": outer}
    for steps in (1, 5, 12, 40):
        scenario = tiny(
            2, 7.0, aggregation="allreduce", sync=sync, run={"steps": steps, "warmup": 1}
        )
        early = run_scenario(scenario, settle=False)
        assert early.step_time < 11
        assert "communication piles up, " in early.result.warnings[0]
        result = simulate(scenario)
        assert result.steady
        assert result.step_time_s["mean"] == pytest.approx(16, rel=1e-3)
