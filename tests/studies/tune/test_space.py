"""What is searched: fields that are compatible, and clear words for those that do not."""

from pathlib import Path

import pytest

from dpsim.base.errors import DpsimError, ScenarioError
from dpsim.scenario import load_scenario
from dpsim.studies.tune import OBJECTIVES, Limits, default_values, parse_over, tune
from dpsim.studies.tune.space import space

BUCKETS = ["strategy.overlap.bucket_size=1 MB,2 MB", "strategy.overlap.kind=sequential,buckets"]


def spaced(path, over=(), objective="step-time", limits=None):
    return space(load_scenario(path), over, OBJECTIVES[objective], limits or Limits())


def test_a_field_is_searched_only_with_the_kinds_that_have_it(tiny):
    found = spaced(tiny, BUCKETS)
    assert [found.plain(choice) for choice in found.choices()] == [
        {"strategy.overlap.kind": "sequential"},
        {"strategy.overlap.kind": "buckets", "strategy.overlap.bucket_size": "1 MB"},
        {"strategy.overlap.kind": "buckets", "strategy.overlap.bucket_size": "2 MB"},
    ]
    numbers = {"strategy.overlap.kind": 0, "strategy.overlap.bucket_size": 1}
    assert found.choice(numbers) == (("strategy.overlap.kind", 0),)


def test_a_whole_part_may_be_a_value(tiny):
    over = [
        "strategy.overlap={kind: buckets, first_bucket: 1 MB},{kind: wfbp}",
        "strategy.overlap.bucket_size=1 MB,2 MB",
    ]
    assert spaced(tiny, over).size == 3


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_size_counts_the_choices_of_the_default_space(tiny, objective):
    found = spaced(tiny, objective=objective)
    choices = list(found.choices())
    assert found.size == len(choices) == len(set(choices)) > 80


def test_every_default_value_is_one_that_its_field_takes(tiny):
    """Each is tried separately, so that a new name in a list of defaults is a real one."""
    found = tune(tiny, evaluations=1)
    defaults = default_values(load_scenario(tiny), OBJECTIVES["step-time"], Limits())
    assert {each.path: each.plain for each in found.space.dimensions} == {
        path: tuple(dict.fromkeys(values)) for path, values in defaults.items()
    }


def test_the_step_time_is_not_searched_over_batch_learners_and_nodes(tiny):
    scenario = load_scenario(tiny)
    values = {
        name: default_values(scenario, OBJECTIVES[name], Limits(nodes=9))
        for name in ("step-time", "throughput")
    }
    more = {
        "workload.batch_per_gpu": (2, 4, 8, 16, 32),
        "workload.learners_per_gpu": (1, 2, 4),
        "cluster.nodes": (1, 2, 4, 8),
    }
    assert {
        path: several if path == "cluster.nodes" else tuple(dict.fromkeys(several))
        for path, several in more.items()
    } == {
        path: tuple(dict.fromkeys(several))
        for path, several in values["throughput"].items()
        if path not in values["step-time"]
    }


LLM = Path(__file__).parents[3] / "scenarios" / "llm" / "llama3-8b-8xh100.yaml"


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        (["workload.checkpoint=full"], {"none", "selective", "full"}),
        (["workload.checkpoint=none", "workload.batch_per_gpu=8"], {"none", "selective", "full"}),
        # It fits as it is, so that recomputing would only take longer.
        (["workload.checkpoint=none", "workload.batch_per_gpu=1"], None),
        (["workload.checkpoint={every: 2}"], None),
    ],
)
def test_activations_are_recomputed_or_not_where_memory_matters(changes, values):
    scenario = load_scenario(LLM, changes)
    found = default_values(scenario, OBJECTIVES["step-time"], Limits()).get("workload.checkpoint")
    assert (None if found is None else set(found)) == values


def test_a_target_leaves_out_what_makes_its_steps_unknown(tiny):
    values = default_values(load_scenario(tiny), OBJECTIVES["time-to-target"], Limits())
    assert "strategy.sync.kind" not in values
    assert set(values["strategy.compression.kind"]) == {"none", "cast"}


def test_a_limit_on_accuracy_leaves_out_what_nobody_knows_the_loss_of(tiny):
    values = default_values(
        load_scenario(tiny), OBJECTIVES["step-time"], Limits(accuracy_penalty=0.0)
    )
    assert {"strategy.sync.kind", "strategy.compression.kind"}.isdisjoint(values)


def test_without_a_limit_nodes_are_at_most_those_of_the_file(tiny):
    values = default_values(load_scenario(tiny), OBJECTIVES["throughput"], Limits())
    assert values["cluster.nodes"] == (1, 2, 4)


@pytest.mark.parametrize(
    ("over", "message"),
    [
        (
            ["strategy.overlap.kind"],
            "--over must be key=value,value,..., such as strategy.overlap.kind=sequential,buckets",
        ),
        (
            ["strategy.overlap.kind=wfbp,wfbp"],
            "--over strategy.overlap.kind: must have values of which no two are alike",
        ),
        (
            ["cluster.nodes=1", "cluster.nodes=2"],
            "--over cluster.nodes: must be given once, but got two",
        ),
        (
            ["strategy.overlap.bucket_size=1 MB"],
            "--over strategy.overlap.bucket_size: must be a field where strategy.overlap.kind is "
            "buckets, but that is sequential",
        ),
    ],
)
def test_an_impossible_search_is_reported(tiny, over, message):
    with pytest.raises(DpsimError) as raised:
        tune(tiny, over=over)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("over", "start"),
    [
        (
            ["strategy.overlap.kind=bukets,wfbp"],
            "--over strategy.overlap.kind=bukets: strategy.overlap.kind: ",
        ),
        (
            ["cluster.nodes=0,2"],
            "--over cluster.nodes=0: cluster.nodes: must be greater than 0, but got 0",
        ),
        (["cluster.nodez=1,2"], "--over cluster.nodez=1: cluster.nodez: "),
        (["strategy.nothing.there=1,2"], "--over strategy.nothing.there=1: strategy.nothing: "),
    ],
)
def test_a_value_that_its_field_never_takes_is_an_error_and_no_infeasible_point(tiny, over, start):
    with pytest.raises(ScenarioError) as raised:
        tune(tiny, over=over)
    assert str(raised.value).startswith(start)


def test_over_is_read_as_yaml():
    path, values = parse_over("strategy.overlap={kind: buckets, bucket_size: 1 MB},{kind: wfbp}")
    assert path == "strategy.overlap"
    assert [value.value.plain() for value in values] == [
        {"kind": "buckets", "bucket_size": "1 MB"},
        {"kind": "wfbp"},
    ]
