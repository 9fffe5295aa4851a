"""Configurations that break a limit are left out before they are simulated, each reason reported and
counted.
"""

import pytest

from dpsim.base.errors import DpsimError
from dpsim.engine import run_scenario
from dpsim.scenario import load_scenario
from dpsim.studies.tune import Limits, tune
from dpsim.studies.tune import evaluator as evaluators


def reasons(found):
    return {why: count for why, count, _ in found.reasons}


@pytest.mark.parametrize(
    ("limits", "over", "expected"),
    [
        (Limits(nodes=2), "cluster.nodes=1,2,4,8", {"more than 2 nodes (--max-nodes)": 2}),
        (
            Limits(batch=64),
            "workload.batch_per_gpu=8,16,32",
            {"a global batch above 64 samples (--max-batch)": 1},
        ),
        (
            Limits(memory=1.34e9),
            "strategy.aggregation.kind=allreduce,sharded",
            {"more than 1.34 GB on a GPU (--max-memory)": 1},
        ),
        (
            Limits(accuracy_penalty=0.01),
            "strategy.compression.kind=none,int8",
            {
                "accuracy penalty not known (--max-accuracy-penalty): compression int8 (gradients lose digits or entries)": 1
            },
        ),
    ],
)
def test_what_breaks_a_limit_is_counted_and_not_simulated(tiny, limits, over, expected):
    found = tune(tiny, over=[over], objective="throughput", limits=limits)
    assert reasons(found) == expected
    assert found.simulated == found.space.size - sum(expected.values())


def test_points_that_do_not_fit_or_are_incompatible_are_skipped_and_others_run_once(
    write, monkeypatch
):
    """A GPU needs 1.357 GB with all-reduce, 1.331 GB sharded, and 1.342 GB without, where gradients
    need no buckets.
    """
    simulated = []

    def run_once(scenario, **how):
        simulated.append(scenario)
        return run_scenario(scenario, **how)

    monkeypatch.setattr(evaluators, "run_scenario", run_once)
    over = [
        "strategy.aggregation.kind=allreduce,sharded",
        "strategy.sync.kind=bsp,asp",
        "cluster.nodes=1,4",
    ]
    found = tune(write(memory="1.35 GB"), over=over)
    assert reasons(found) == {
        "does not fit in the 1.35 GB of inline": 2,
        "strategy: aggregation sharded with sync asp is not possible: a worker holds only a part of the model and cannot train alone; a group can: local-sgd with group: node and every: 1": 2,
    }
    assert len(found.evaluations) == found.simulated == 4
    # And the file itself, which does not fit, and the best without each of two values.
    assert len(simulated) == 7


def test_what_the_memory_model_refuses_is_no_error_either(tiny):
    over = ["strategy.aggregation.kind=allreduce,sharded", "workload.learners_per_gpu=1,2"]
    found = tune(tiny, over=over, objective="throughput")
    assert reasons(found) == {
        "learners must be 1 where model state is divided (stage 3), but got 2": 1
    }


@pytest.mark.parametrize(("budget", "left"), [(20.0, [1]), (100.0, [1, 2])])
def test_the_budget_is_known_after_simulation(tiny, budget, left):
    """A million samples take 15 GPU hours on one node and 62 on two: the network is slow."""
    found = tune(
        tiny, over=["cluster.nodes=1,2,4"], objective="throughput", limits=Limits(budget=budget)
    )
    assert [each.values["cluster.nodes"] for each in found.evaluations] == left
    assert reasons(found) == {f"costs more than {budget:g} GPU hours (--budget)": 3 - len(left)}
    assert found.simulated == 3


def test_where_nothing_can_be_the_reasons_are_the_error(tiny):
    with pytest.raises(DpsimError) as raised:
        tune(tiny, over=["cluster.nodes=2,4"], limits=Limits(nodes=1))
    assert str(raised.value) == "no configuration can be: 2 x more than 1 nodes (--max-nodes)"


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"memory": -2e9}, "--max-memory: must be above 0, but got -2 GB"),
        ({"batch": 0}, "--max-batch: must be at least 1, but got 0"),
        ({"nodes": -1}, "--max-nodes: must be at least 1, but got -1"),
        ({"budget": -2.0}, "--budget: must be above 0, but got -2"),
        ({"accuracy_penalty": -0.1}, "--max-accuracy-penalty: must be at least 0, but got -0.1"),
    ],
)
def test_limits_that_nothing_can_keep_are_refused(limit, message):
    with pytest.raises(DpsimError) as raised:
        Limits(**limit)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("change", "is_known"),
    [
        ("strategy.aggregation.kind=sharded", True),
        ("strategy.aggregation.kind=parameter-server", True),
        ("strategy.overlap.kind=priority", True),
        ("strategy.compression.kind=cast", False),
        ("strategy.sync.kind=ssp", False),
        ("strategy.sync.kind=local-sgd", False),
        ("strategy.sync.kind=backup", False),
        ("strategy.aggregation.kind=gossip", False),
    ],
)
def test_only_the_updates_of_plain_training_have_a_known_accuracy(tiny, change, is_known):
    broken = Limits(accuracy_penalty=1.0).broken(load_scenario(tiny, [change]))
    assert (broken is None) == is_known
    assert is_known or broken.startswith("accuracy penalty not known (--max-accuracy-penalty): ")
