"""Remedies of what does not fit as values of the scenario: each makes it fit, the batch as it is."""

from pathlib import Path

import pytest

from dpsim import load_scenario
from dpsim.engine import memory_use, remedy_values
from dpsim.studies.explain import as_options

SCENARIOS = Path(__file__).parents[2] / "scenarios"
TOO_MUCH = (
    ["workload.batch_per_gpu=500"],
    ["workload.batch_per_gpu=480", "workload.gradient_accumulation=5", "cluster.gpu=t4"],
    ["workload.model=gpt2-xl", "workload.batch_per_gpu=2", "workload.optimizer=adam"],
    ["workload.batch_per_gpu=64", "workload.learners_per_gpu=6"],
    # Over several passes fully sharded gradients are kept whole, which one pass does without.
    [
        "cluster.nodes=1",
        "cluster.node=dgx-h100",
        "cluster.gpu=h100-sxm-96gb",
        "workload.model=llama3-8b",
        "workload.sequence_length=8192",
        "workload.checkpoint=selective",
        "workload.precision=bf16",
        "workload.optimizer=adamw",
        "workload.batch_per_gpu=16",
        "strategy.aggregation={kind: sharded, stage: 3, wrap: block}",
    ],
)


@pytest.mark.parametrize("changes", TOO_MUCH)
def test_each_remedy_as_values_of_the_scenario_makes_it_fit_with_the_same_batch(changes):
    file = SCENARIOS / "quickstart.yaml"
    scenario = load_scenario(file, changes)
    use = memory_use(scenario)
    assert use.remedies()
    for remedy in use.remedies():
        values = remedy_values(scenario, remedy)
        mended = load_scenario(file, [*changes, *as_options(values)])
        assert memory_use(mended).fits, remedy.text
        if "learners" not in remedy.changes:
            assert mended.workload.samples_per_gpu == scenario.workload.samples_per_gpu
