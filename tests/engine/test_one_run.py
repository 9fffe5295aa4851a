"""Whatever results are requested, a scenario is prepared once and simulated once."""

import json
from pathlib import Path

import numpy as np
import pytest

from dpsim import Scenario, load_scenario, simulate
from dpsim.base.errors import DpsimError
from dpsim.engine import Recording, calibration, preparation, run_scenario
from dpsim.engine import run as run_module

QUICKSTART = str(Path(__file__).parents[2] / "scenarios" / "quickstart.yaml")
FEW = ("--set", "run.steps=4", "--set", "run.warmup=1")
SLOW = {"slow": [{"workers": [1], "factor": 2}]}


def measured(nodes):
    """Options by which a step of 300 ms was measured on so many nodes."""
    step = {"step_time": "300 ms", "nodes": nodes, "source": "a run"}
    return ("--set", f"calibration={json.dumps(step)}")


@pytest.fixture
def counts(monkeypatch):
    """How often a job was prepared, fitted to a measured step, and simulated for an answer."""
    found = {"prepared": 0, "fitted": 0, "simulated": 0}

    def count(what, module, name):
        original = getattr(module, name)

        def counted(*args, **kwargs):
            found[what] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, counted)

    count("prepared", preparation, "prepare")
    count("prepared", calibration, "prepare")  # on other nodes
    count("fitted", calibration, "scale_to")
    count("simulated", run_module, "simulate_job")
    return found


def test_a_trace_and_a_page_are_of_the_run_that_was_simulated(dpsim, tmp_path, counts):
    files = ("--trace", tmp_path / "trace.json", "--html", tmp_path / "page.html")
    assert dpsim("run", QUICKSTART, *FEW, *files)[0] == 0
    assert {path.name for path in tmp_path.iterdir()} == {"trace.json", "page.html"}
    assert counts == {"prepared": 1, "fitted": 0, "simulated": 1}


@pytest.mark.parametrize(("nodes", "prepared"), [(4, 1), (2, 2)])
def test_a_measured_step_is_fitted_once(dpsim, tmp_path, counts, nodes, prepared):
    """Measured on other nodes than the scenario's, the job of those is prepared too."""
    files = ("--trace", tmp_path / "trace.json", "--html", tmp_path / "page.html")
    assert dpsim("run", QUICKSTART, *FEW, *measured(nodes), *files)[0] == 0
    assert counts == {"prepared": prepared, "fitted": 1, "simulated": 1}


@pytest.mark.parametrize("sync", ["bsp", "asp"])
@pytest.mark.parametrize("overlap", ["wfbp", "sequential"])
def test_a_run_is_the_same_to_the_last_digit_whatever_it_records(tiny, overlap, sync):
    scenario = tiny(
        3,
        aggregation="parameter-server",
        overlap=overlap,
        sync=sync,
        disturbance={**SLOW, "jitter": {"kind": "lognormal"}},
    )
    plain = run_scenario(scenario)
    kept = run_scenario(scenario, Recording(steps=None, versions=True))
    np.testing.assert_array_equal(plain.all_steps.step, kept.all_steps.step)
    answers = [each.result.to_json() | {"provenance": None} for each in (plain, kept)]
    assert answers[0] == answers[1]


def test_recorded_steps_are_separate_after_the_run(tiny):
    run = run_scenario(tiny(), Recording(steps=2, first=1))
    assert run.recorded == range(1, 3)
    second, third = run.intervals(1), run.intervals(2, workers=1)
    assert max(each.end for each in second) == min(each.start for each in third)
    assert {each.worker for each in third} == {0}
    with pytest.raises(DpsimError, match="step 0 must be recorded"):
        run.intervals(0)


def test_as_many_steps_are_recorded_as_there_is_room_for(tiny, monkeypatch):
    monkeypatch.setattr("dpsim.engine.kernel._MOST_INTERVALS", 40)
    assert run_scenario(tiny(), Recording(steps=None)).recorded == range(2)
    assert run_scenario(tiny(16), Recording(steps=None)).recorded == range(1)
    assert run_scenario(tiny(16), Recording(steps=3)).recorded == range(3)


def test_the_busiest_link_is_one_of_the_loaded_links(tiny):
    run = run_scenario(tiny())
    busiest = run.link_loads.utilisation(run.job.network.capacities).max()
    assert run.result.traffic.busiest_link_utilisation == busiest > 0


def test_the_model_is_built_once(monkeypatch):
    built = []
    build = Scenario.build_model
    monkeypatch.setattr(Scenario, "build_model", lambda self: built.append(1) or build(self))
    simulate(load_scenario(QUICKSTART, ["run.steps=2"]))
    assert built == [1]
