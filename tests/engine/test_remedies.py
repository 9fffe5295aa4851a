"""Remedies of what does not fit as values of the scenario: each makes it fit, the batch as it is."""

import re
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


LONG = ["workload.sequence_length=65536", "workload.checkpoint=full", "workload.batch_per_gpu=1"]


def test_where_nothing_else_helps_the_longest_sequences_that_fit_are_named():
    """They are so long, and no 1,024 tokens longer."""
    file = SCENARIOS / "llm" / "llama3-8b-8xh100.yaml"
    use = memory_use(load_scenario(file, LONG))
    assert not use.remedies()
    (advice,) = [line for line in use.advice() if line.startswith("shorten sequences")]
    length = int(re.search(r"from 65,536 to at most ([\d,]+) tokens", advice)[1].replace(",", ""))
    for tokens, fits in ((length, True), (length + 1024, False)):
        shorter = [f"workload.sequence_length={tokens}", *LONG[1:]]
        assert memory_use(load_scenario(file, shorter)).fits is fits


def test_images_have_no_sequences_to_shorten():
    use = memory_use(load_scenario(SCENARIOS / "quickstart.yaml", ["cluster.gpu=v100-sxm2-16gb"]))
    assert use.of_length is None
