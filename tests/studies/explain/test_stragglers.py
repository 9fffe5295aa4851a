"""What stragglers cost, computed by hand: a model of 30 ms and a worker that is slow."""

import pytest

from dpsim import simulate
from dpsim.engine import run_scenario
from dpsim.report.text.explanation import refused_alternatives
from dpsim.studies.explain import straggler_cost
from tools.combinations_page import kinds_of


def cost(scenario):
    run = run_scenario(scenario)
    return straggler_cost(run, scenario, run.result, simulate)


def test_a_worker_that_is_slow_is_waited_for_by_all_others(tiny):
    """Worker 1 of 4 computes twice as long: three wait for as long as it computes otherwise."""
    single = simulate(tiny(4))
    found = cost(tiny(4, disturbance={"slow": [{"workers": [1], "factor": 2}]}))
    computing = single.parts_s["compute"]
    assert found.without_s == pytest.approx(single.steps.step.mean())
    # The last optimiser's step is waited for by nobody.
    assert found.straggler_wait_s == pytest.approx(0.75 * computing, rel=0.02)
    assert [(each.name, each.share) for each in found.workers] == [("worker 1", 1.0)]
    assert sum(each.share for each in found.nodes) == pytest.approx(1.0)
    (cause,) = found.causes
    assert cause.step_time_s == pytest.approx(found.without_s)


def test_of_two_slow_workers_leaving_the_faster_one_out_gains_nothing(tiny):
    slow = [{"workers": [1], "factor": 2}, {"workers": [2], "factor": 1.5}]
    found = cost(tiny(4, disturbance={"slow": slow}))
    slower, faster = found.causes
    assert (slower.title, faster.title) == ("slow workers 0", "slow workers 1")
    assert faster.step_time_s == pytest.approx(found.step_time_s, rel=0.01)
    assert found.without_s < slower.step_time_s < 0.9 * found.step_time_s


def test_every_way_is_what_its_options_make_of_the_scenario(tiny):
    disturbance = {"slow": [{"workers": [0], "factor": 3}]}
    found = cost(tiny(4, disturbance=disturbance))
    own, *others = found.ways
    assert own.options == ()
    assert own.changes is None
    assert {way.title for way in others} >= {"backup", "ssp", "asp", "local-sgd", "gossip"}
    for way in others:
        kinds = dict(option.removeprefix("strategy.").split(".kind=") for option in way.options)
        parts = {part: {"kind": kind} for part, kind in kinds.items()}
        if way.refused is None:
            single = simulate(tiny(4, disturbance=disturbance, **parts))
            assert way.throughput_samples_per_s == pytest.approx(single.throughput_samples_per_s)
            assert way.changes is not None
    # Nobody waits for a worker that is slow for good where each goes at its own pace.
    asynchronous = next(way for way in others if way.title == "asp")
    assert asynchronous.throughput_samples_per_s > own.throughput_samples_per_s


def test_where_nobody_is_slow_there_is_nothing_to_say(tiny):
    assert cost(tiny()) is None


def test_the_file_s_own_stragglers_are_answered_by_the_command(dpsim, tmp_path):
    options = ("--set", "run.steps=4", "--set", "run.warmup=1", "--set", "cluster.nodes=1")
    code, out, _ = dpsim("explain", "scenarios/quickstart.yaml", *options)
    assert code == 0
    assert "waited for: worker" in out
    assert "gossip, asynchronous (AD-PSGD)" in out


def test_ways_that_cannot_be_share_a_line_with_their_reason(tiny):
    found = cost(tiny(4, aggregation="sharded", disturbance={"slow": [{"workers": [1]}]}))
    why = "a worker holds only a part of the model and cannot train alone; a group can: local-sgd with group: node and every: 1"
    others = [kind for kind in kinds_of("sync") if kind != "bsp"]
    assert refused_alternatives(found) == [f"cannot be: {', '.join(others)}: {why}"]
