"""A search has the time of one simulation: when that ends, what was tried is the answer."""

import json
import re

import pytest

from dpsim.base import budget
from dpsim.base.budget import OverTimeError
from dpsim.engine import run_scenario, simulate
from dpsim.scenario import load_scenario
from dpsim.studies.tune import Refused, evaluator, tune

OVER = ["strategy.overlap.kind=sequential,wfbp,priority", "strategy.compression.kind=none,cast"]


@pytest.fixture
def time_is_up(monkeypatch):
    """Lets simulations use up what is left of their time, by their number."""

    def at(numbers):
        begun = []

        def slow(*args, **settings):
            begun.append(args)
            if len(begun) in numbers:
                budget._limit.get().end = budget._limit.get().look = 0.0
                budget.check()
            return run_scenario(*args, **settings)

        monkeypatch.setattr(evaluator, "run_scenario", slow)

    return at


def test_what_was_tried_is_compared_with_all_steps(write, time_is_up):
    path = write(steps=30)
    time_is_up({4})
    found = tune(path, over=OVER)
    assert (found.partial, found.exhaustive, found.simulated) == (True, False, 3)
    assert len(found.evaluations) == 3
    assert found.best.figure == min(each.figure for each in found.front)
    assert {each.scenario.run.steps for each in (found.best, found.baseline, found.exact)} == {30}
    assert any("the time limit (DPSIM_TIME_LIMIT) ended the search" in note for note in found.notes)


def test_without_time_for_all_steps_the_best_with_few_is_the_answer(write, time_is_up):
    time_is_up(range(4, 100))
    found = tune(write(steps=30), over=OVER)
    assert found.best.figure == min(each.figure for each in found.evaluations)
    assert found.best.scenario.run.steps < 30
    assert isinstance(found.baseline, Refused)
    assert (found.partial, found.gain) == (True, None)


def test_where_nothing_was_tried_the_limit_is_the_error(tiny, time_is_up):
    time_is_up(range(1, 100))
    with pytest.raises(OverTimeError, match="takes more than 3,600 CPU seconds, the limit"):
        tune(tiny, over=OVER)


def test_a_configuration_that_takes_too_long_leaves_time_for_the_others(tiny, monkeypatch):
    def refused_if_sequential(scenario, **settings):
        if scenario.strategy.overlap.kind == "sequential":
            raise OverTimeError("would take about 9,000 s")
        return run_scenario(scenario, **settings)

    monkeypatch.setattr(evaluator, "run_scenario", refused_if_sequential)
    found = tune(tiny, over=OVER)
    assert found.partial
    assert [(count, why) for why, count, _ in found.reasons] == [(2, evaluator.NO_TIME)]
    assert len(found.evaluations) == 4


def test_a_long_search_says_how_long_it_takes_and_each_best_so_far(tiny, monkeypatch):
    monkeypatch.setattr(budget, "_REPORTED_FROM", 0.0)
    output = []
    found = tune(tiny, over=OVER, say=output.append)
    assert not found.partial
    best = "best: step time [0-9.]+ m?s with strategy.overlap.kind="
    for line in output:
        assert re.match(rf"about \d+ CPU seconds, \d of 6 tried; {best}", line)
    assert output[0].split(", ")[1].startswith("1 of 6 tried")
    values = ", ".join(f"{path}={value}" for path, value in found.best.values.items())
    assert output[-1].endswith(f"with {values}")


def test_events_are_tried_as_vectors_where_these_are_exact(tiny):
    events = ["run.engine=events"]
    found = tune(tiny, over=OVER, overrides=events)
    assert {each.result.engine for each in (found.best, *found.evaluations)} == {"vector"}
    assert found.best.scenario.run.engine == "events"
    (best,) = (simulate(load_scenario(tiny, [*events, *found.best.to_json()["set"]])),)
    assert best.engine == "events"
    assert found.best.figure == pytest.approx(best.step_time_s["mean"], rel=1e-9)
    single = tune(tiny, over=["strategy.sync.kind=ssp"], overrides=events)
    assert single.best.result.engine == "vector"  # SSP over an all-reduce
    servers = [*events, "strategy.aggregation={kind: parameter-server}"]
    single = tune(tiny, over=["strategy.sync.kind=ssp"], overrides=servers)
    assert single.best.result.engine == "events"


def test_an_answer_in_part_ends_with_code_3(dpsim, tiny, tmp_path, time_is_up):
    over = [word for text in OVER for word in ("--over", text)]
    time_is_up({3})
    code, out, _ = dpsim("tune", tiny, *over)
    assert code == 3
    assert "2 simulated of 6 configurations (until the time limit), seed 0" in out
    time_is_up({3})
    code, out, _ = dpsim("tune", tiny, *over, "-o", tmp_path / "best.yaml", "--json")
    assert code == 3
    assert json.loads(out)["partial"] is True
    assert load_scenario(tmp_path / "best.yaml").name == "tiny-tuned"
