"""What is too large for a page is refused with a number, before anything is built."""

import time
from functools import partial

import pytest
from app_pages import metrics
from work_here import Here

from app.answers import answer, explained
from app.reading import scenario
from app.spec import Spec
from app.work import Task
from dpsim.base.errors import DpsimError

PRESET = "resnet50-32-v100-25gbe"


@pytest.mark.parametrize(
    "changes",
    [
        ("cluster.nodes=100000",),
        ("cluster.nodes=10000", "strategy.aggregation.algorithm=all-to-all"),
        ("run.steps=1000000", "cluster.nodes=1000"),
        ("cluster.nodes=4000", "strategy.aggregation.kind=parameter-server"),
        ("cluster.nodes=2000", "run.network_model=flows"),
    ],
)
def test_a_large_scenario_is_refused_at_once_with_seconds_and_bytes(changes):
    started = time.process_time()
    with pytest.raises(DpsimError, match=r"must be at most|would need about [\d.,]+ GB"):
        answer(Spec(PRESET, changes=changes), lambda done, total: None)
    assert time.process_time() - started < 2


def test_fewer_steps_are_offered_where_they_are_allowed(open_page):
    large = ["cluster.nodes=512", "run.steps=30000"]
    page = open_page("what_if", wait=False, preset=PRESET, set=large)
    assert "steps + warmup must be at most 4882 for 4096 workers" in page.error[0].value
    page.button(key="few steps").click().run()
    assert not page.error
    assert metrics(page)["step time"]


def test_steps_that_would_take_too_long_are_refused_after_the_first_ones():
    changes = ("strategy.aggregation.kind=parameter-server", "run.steps=20000")
    started = time.process_time()
    task = Task(partial(answer, Spec(PRESET, changes=changes)), seconds=5.0)
    task.is_long = True
    task.begin(Here())
    with pytest.raises(DpsimError, match=r"would take about [\d,]+ CPU seconds"):
        task.value()
    assert time.process_time() - started < 4


def test_limits_of_a_sharded_70b_model_take_seconds():
    """In those of the processor: the first knob in about 0.8, all in 5 to 6."""
    spec, known = Spec("llama2-70b-128-a100-hybrid"), []
    scenario(spec)
    started = time.process_time()

    def report(done, total, found=None):
        if any(part.get("change") for part in (found or {}).values()):
            known.append(time.process_time() - started)

    assert len(explained(spec, report)) > len(known) > 10
    assert known[0] < 1.5
    assert time.process_time() - started < 10


@pytest.mark.wide
def test_the_largest_cluster_of_the_readme_is_simulated_on_a_page():
    spec = Spec("llama3-8b-8-h100-fsdp", changes=("cluster.nodes=16384",))
    result = answer(spec, lambda done, total: None).result
    assert (result.workers, result.engine) == (131_072, "vector")


def test_a_refusal_is_shown_with_a_way_back(open_page):
    page = open_page("what_if", wait=False, preset=PRESET, set=["cluster.nodes=100000"])
    assert "must be at most" in page.error[0].value
    assert not page.exception
    assert page.button(key="undo")
