"""What limits a scenario.

Gains that come true, reasons for those that do not, on the tiny job and on scenarios of the tour.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from dpsim import load_scenario, simulate
from dpsim.base import budget
from dpsim.studies.explain import KNOBS, changed, explain, explanation
from dpsim.studies.explain.reasons import reason

SCENARIOS = Path(__file__).parents[3] / "scenarios"
FEW = ["run.steps=6", "run.warmup=2"]


@cache
def explained(file, *overrides):
    """What limits one of the scenarios."""
    return explain(load_scenario(SCENARIOS / f"{file}.yaml", overrides))


def turns(found):
    return {turn.name: turn for turn in found.turns}


@pytest.mark.parametrize(
    ("file", "overrides", "first"),
    [
        ("quickstart", ["run.steps=15"], "gpu-speed"),
        ("ranking-flips", [], "gpu-speed"),
        (
            "ranking-flips",
            ["cluster.network.nic=1GbE", "strategy.compression.kind=cast"],
            "averaging",
        ),
        (
            "quickstart",
            ["workload.input.kind=storage", "workload.input.loader_workers=1", "run.steps=15"],
            "loader",
        ),
        ("imagenet/goyal-2017-8gpus", [], "gpu-speed"),
    ],
)
def test_doubling_the_knob_that_is_named_first_changes_the_step_as_it_says(file, overrides, first):
    """Applied to the file by --set and simulated in full, to 1 % of the step."""
    path = SCENARIOS / f"{file}.yaml"
    found = explained(file, *overrides)
    turn = found.turns[0]
    assert turn.name == first
    before = simulate(load_scenario(path, overrides))
    after = simulate(load_scenario(path, [*overrides, *turn.to_json()["set"]]))
    assert before.step_time_s["mean"] == pytest.approx(found.base.step_time_s["mean"], rel=1e-6)
    message, came = turn.step_change, after.step_time_s["mean"] / before.step_time_s["mean"] - 1
    assert abs(message - came) < 0.01
    assert turn.change_per_sample < -0.02


def test_the_tiny_job_by_hand(tiny):
    """10 s of passes, 2 s of all-reduce (1 s at twice the rate), 0.5 s of update."""
    found = explain(tiny())
    assert found.base.step_time_s["mean"] == pytest.approx(12.5)
    by_name = turns(found)
    assert by_name["network-bandwidth"].step_change == pytest.approx(11.5 / 12.5 - 1)
    assert by_name["gpu-speed"].step_change == pytest.approx(7.25 / 12.5 - 1)
    assert by_name["gpu-speed"].elasticity == pytest.approx(-0.786, abs=1e-3)  # log2(7.25 / 12.5)
    assert by_name["compression"].step_change == pytest.approx(-1 / 12.5, abs=1e-6)
    assert [turn.name for turn in found.turns][:1] == ["gpu-speed"]


def test_what_changes_nothing_says_why(tiny):
    by_name = turns(explain(tiny()))
    assert by_name["latency"].change_per_sample == 0
    assert by_name["latency"].why.startswith(
        "exposed communication is 16% of a step, but hardly depends on latency"
    )
    assert by_name["jitter"].why == "compute times do not vary in this scenario"
    assert by_name["loader"].why == "samples wait in GPU memory"
    assert by_name["servers"].why == "there are no parameter servers"
    assert by_name["bucket-size"].why == "the overlap policy is sequential, which has no buckets"
    assert by_name["memory-bandwidth"].change is None
    assert by_name["network-bandwidth"].why is None


def test_a_network_that_nothing_crosses(tiny):
    by_name = turns(explain(tiny(1)))
    assert (
        by_name["network-bandwidth"].why == "all GPUs are in one node: nothing crosses the network"
    )
    assert by_name["node-bandwidth"].why == "exposed communication is no part of a step"


def test_every_change_comes_true_by_set():
    path = SCENARIOS / "ranking-flips.yaml"
    found = explained("ranking-flips")
    for turn in found.turns:
        if turn.change is not None:
            after = simulate(load_scenario(path, turn.to_json()["set"]))
            # The file's steps need not be whole periods of averaging.
            near = 2e-3 if turn.name == "averaging" else 1e-6
            assert after.step_time_s["mean"] / found.base.step_time_s["mean"] - 1 == pytest.approx(
                turn.step_change, abs=near
            )


def test_groups_are_to_meet_more_rarely_or_beside_steps(tiny):
    """An outer step of 2 s every second step of 10.5 s: every fourth, or beside one of them."""
    outer = {"every": 2}
    sync = {"kind": "local-sgd", "group": 1, "every": 1, "outer": outer}
    scenario = tiny(2, sync=sync, run={"steps": 8})
    changes = {change.words: change.values for change in KNOBS["averaging"].options(scenario)}
    runs = {words: simulate(changed(scenario, values)) for words, values in changes.items()}
    assert {words: run.step_time_s["mean"] for words, run in runs.items()} == {
        "groups meet every 2 -> 4 averagings (changes convergence)": pytest.approx(11, rel=1e-3),
        "groups meet beside 1 step (changes convergence)": pytest.approx(10.5, rel=1e-3),
    }


def test_nodes_that_each_divide_a_model_are_to_meet_now_and_then():
    """What workers divide none of them has whole, but a node has; a single one meets nobody."""
    name = "llm/llama3-8b-64xh100.yaml"
    scenario = load_scenario(SCENARIOS / name, ["workload.checkpoint=full"])
    options = KNOBS["averaging"].options(scenario)
    assert {change.values["strategy.sync"]["outer"]["every"] for change in options} == {4, 16}
    for change in options:
        groups = changed(scenario, change.values).strategy
        assert groups.sync.outer_step is not None
        assert simulate(changed(scenario, change.values)).memory.fits
    assert isinstance(KNOBS["averaging"].options(changed(scenario, {"cluster.nodes": 1})), str)


def test_what_one_part_saves_another_may_take():
    """With less jitter workers wait less for one another, but then all of them use the servers at
    once.
    """
    scenario = load_scenario(SCENARIOS / "parameter-server.yaml", FEW)
    knob = KNOBS["jitter"]
    (change,) = knob.options(scenario)
    message = reason(
        knob, change, simulate(scenario), simulate(changed(scenario, change.values)), None
    )
    assert re.fullmatch(
        r"waiting for slower workers saves [\d.]+ ms, but exposed communication, already 6\d% of a step, takes [\d.]+ ms more",
        message,
    )


def test_what_cannot_be_is_refused_in_words():
    by_name = turns(
        explain(
            load_scenario(
                SCENARIOS / "disturbed.yaml", ["cluster.nodes=2", "run.steps=2", "run.warmup=0"]
            )
        )
    )
    assert by_name["batch"].change is None
    assert "2x the batch per GPU cannot be" in by_name["batch"].why


def test_advice_names_gains_best_first_and_then_what_gains_nothing(tiny):
    found = explain(tiny())
    assert found.advice[0] == "2x faster GPUs (half the measured times): -42 %"
    gains = [line for line in found.advice if "no gain" not in line]
    assert found.advice[: len(gains)] == gains
    assert any(line.startswith("half the latency: no gain, ") for line in found.advice)


def test_the_scale_of_a_measured_step_stays_when_the_hardware_changes():
    """A step of 8 GPUs was measured.

    With GPUs twice as fast it would not have been, so the factor is kept, not fitted anew.
    """
    found = explained("imagenet/goyal-2017-8gpus")
    turn = turns(found)["gpu-speed"]
    assert turn.step_change < -0.25
    assert turn.to_json()["set"][0].startswith('calibration={"compute_scale": ')


def test_asynchronous_changes_below_their_own_scatter_are_none(tiny):
    found = explain(
        tiny(
            aggregation="parameter-server",
            sync="asp",
            disturbance={"jitter": {"kind": "lognormal", "sigma": 0.3}},
        )
    )
    assert found.base.independent_workers
    assert all(turn.threshold >= 0.005 for turn in found.turns)
    assert turns(found)["network-bandwidth"].threshold > 0.01


@pytest.mark.parametrize("passes", ["batch_per_gpu: 8", "gradient_accumulation: 2"])
def test_a_stated_global_batch_is_doubled_with_the_batch(passes):
    scenario = load_scenario(
        "scenarios/quickstart.yaml",
        [f"workload={{model: resnet50, global_batch: 768, {passes}}}", "cluster.nodes=1", *FEW],
    )
    batch = turns(explain(scenario))["batch"]
    assert batch.why is None or "cannot be" not in batch.why
    assert batch.change is not None


def test_twice_the_rate_inside_nodes_is_the_same_bus_twice_as_fast():
    """PCIe 4 at twice its rate is as fast as PCIe 5, whose machines NCCL's model knows apart."""
    little = ["workload.model=gpt2", "workload.batch_per_gpu=1", *FEW]  # to compute beside it
    changes = ["cluster={node: pcie4-8gpu, gpu: rtx-4090}", *little]
    found = explain(load_scenario(SCENARIOS / "sharded.yaml", changes))
    assert -0.5 < turns(found)["node-bandwidth"].step_change < -0.3


def test_knobs_come_cheapest_first_and_no_more_than_there_is_time_for(monkeypatch):
    """The first run is forecast, then turning all knobs; what no time is left for is left out."""
    monkeypatch.setattr(budget, "_REPORTED_FROM", 0.0)
    message = []
    whole = explain(load_scenario(SCENARIOS / "ranking-flips.yaml", FEW), say=message.append)
    first = re.fullmatch(
        r"simulating: about (\d+) CPU seconds, (\d+) of (\d+) steps are done", message.pop(0)
    )
    assert 0 < int(first[2]) <= int(first[3])
    assert re.fullmatch(
        r"a step takes .*; turning knobs: about \d+ simulations of [\d.e-]+ s each: "
        r"about \d+ CPU seconds",
        message[0],
    )
    assert len(message) == 1 + sum(turn.change is not None for turn in whole.turns)
    last = next(turn for turn in whole.turns if turn.change and turn.change.words in message[-1])
    assert len(KNOBS[last.name].options(load_scenario(SCENARIOS / "ranking-flips.yaml"))) > 1


def test_a_whole_explanation_keeps_to_the_limit_of_time(monkeypatch):
    scenario = load_scenario(SCENARIOS / "ranking-flips.yaml", FEW)
    simulated = []

    def slow(given, progress):
        simulated.append(given)
        if len(simulated) > 3:
            # The part of the budget that is left is over.
            budget._limit.get().end = budget._limit.get().look = 0.0
            budget.check()
        return simulate(given)

    monkeypatch.setattr(explanation, "simulate", slow)
    found = explain(scenario)
    assert sum(turn.change is not None for turn in found.turns) == 2
    assert any(
        "cannot be: takes more than 3,600 CPU seconds" in (turn.why or "") for turn in found.turns
    )


def test_a_change_that_the_scatter_of_means_hides_is_not_called_no_gain():
    found = explained("ssp")
    unclear = [turn for turn in found.turns if turn.unclear and turn.change_per_sample < -0.1]
    assert unclear
    for turn in unclear:
        assert (
            turn.why
            == f"means of so few steps scatter by {turn.threshold:.0%}: more run.steps tell"
        )
        (line,) = (each for each in found.advice if each.startswith(turn.change.words))
        assert " no gain" not in line
        assert "per sample, means of so few steps scatter" in line


def test_the_vector_engine_explains_what_asks_for_events_where_it_is_exact():
    found = explained("quickstart", *FEW, "run.engine=events")
    assert found.base.engine == "vector"
    assert found.base.mean_step == pytest.approx(
        simulate(
            load_scenario(SCENARIOS / "quickstart.yaml", [*FEW, "run.engine=events"])
        ).mean_step
    )
