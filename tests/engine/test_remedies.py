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


SYNCED = "strategy.aggregation.gradients.sync_each_pass=true"
LLAMA = [
    *("cluster.node=dgx-a100", "cluster.nodes=2", "workload.model=llama3-8b"),
    *("workload.checkpoint=full", "workload.precision=bf16", "workload.optimizer=adamw"),
    "strategy.aggregation={kind: sharded, stage: 3, wrap: block, weight_bytes: 2}",
]


@pytest.mark.parametrize(("batch", "passes"), [(2, 1), (1, 2)])
def test_where_gradients_kept_whole_over_passes_are_too_much_it_says_how_one_pass_fits(
    batch, passes
):
    """One sample a pass fits in 42.5 GB, and two such passes do if each divides its gradients."""
    file = SCENARIOS / "quickstart.yaml"

    def use(batch, passes, *others):
        work = (f"workload.batch_per_gpu={batch}", f"workload.gradient_accumulation={passes}")
        return memory_use(load_scenario(file, [*LLAMA, *work, *others]))

    too_much = use(batch, passes)
    (advice,) = too_much.advice()
    assert SYNCED.replace("=", ": ") in advice
    assert ("1 sample at a time" in advice) == ("smaller global batch" in advice) == (batch == 2)
    assert use(1, 1).fits
    assert use(1, 2, SYNCED).fits


def test_a_refusal_names_parts_that_add_up():
    """Parts below 1 % of the total are the rest."""
    use = memory_use(load_scenario(SCENARIOS / "quickstart.yaml", TOO_MUCH[0]))
    total, parts = re.search(r"takes ([\d.]+) GB \((.*?)\);", str(use.refusal())).groups()
    assert "rest" in parts
    sizes = {"GB": 1.0, "MB": 1e-3}
    found = [float(number) * sizes[unit] for number, unit in re.findall(r"([\d.]+) (\wB)", parts)]
    assert sum(found) == pytest.approx(float(total), rel=2e-3)


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
