"""Knobs of a step's samples: activations kept, passes, batch; and which of them change updates."""

from pathlib import Path

import pytest

from dpsim import load_scenario, simulate
from dpsim.engine import memory_use
from dpsim.studies.explain import KNOBS, as_options, changed, explain

FILE = Path(__file__).parents[3] / "scenarios" / "sharded.yaml"
# A step of two samples a GPU, of which one without checkpointing takes 79 of 85 GB.
LLAMA = [
    *("cluster={node: dgx-a100, nodes: 2, gpu: a100-sxm-80gb}", "run.steps=2", "run.warmup=1"),
    "strategy.aggregation={kind: sharded, stage: 3, wrap: block, library: auto, weight_bytes: 2}",
]
WORK = "model: llama3-8b, precision: bf16, optimizer: adamw, checkpoint: full"


def llama(batch):
    return [*LLAMA, f"workload={{{WORK}, {batch}}}"]


@pytest.mark.parametrize(
    "batch",
    [
        "batch_per_gpu: 2",
        "batch_per_gpu: 1, gradient_accumulation: 2",
        "global_batch: 32",
        "global_batch: 32, batch_per_gpu: 2",
        "global_batch: 32, gradient_accumulation: 2",
        "global_batch: 32, gradient_accumulation: 2, batch_per_gpu: 1",
    ],
)
def test_activations_are_kept_in_passes_that_fit_with_as_many_samples(batch):
    scenario = load_scenario(FILE, llama(batch))
    ways = KNOBS["checkpoint"].options(scenario)
    kept = {change.values["workload.checkpoint"]: change for change in ways}
    assert set(kept) == {"none", "selective"}
    for change in ways:
        turned = changed(scenario, change.values)
        assert turned == load_scenario(FILE, [*llama(batch), *as_options(change.values)])
        assert memory_use(turned).fits
        assert turned.global_batch == scenario.global_batch == 32
    before, after = (simulate(each) for each in (scenario, changed(scenario, kept["none"].values)))
    assert after.mean_step < 0.9 * before.mean_step


@pytest.mark.parametrize("batch", ["batch_per_gpu: 8", "global_batch: 64", "global_batch: 64, "])
def test_fewer_passes_have_as_many_samples(batch):
    passes = (
        "" if batch.startswith("global") and batch.endswith(", ") else "gradient_accumulation: 4"
    )
    work = f"workload={{model: gpt2, {batch.strip(', ')}, {passes or 'batch_per_gpu: 1'}}}"
    scenario = load_scenario(FILE, ["cluster.nodes=1", work])
    now = scenario.workload.gradient_accumulation
    found = KNOBS["passes"].options(scenario)
    turned = [changed(scenario, change.values) for change in found]
    numbers = [each.workload.gradient_accumulation for each in turned]
    assert numbers == [number for number in range(1, now) if now % number == 0]
    assert {each.global_batch for each in turned} == {scenario.global_batch}
    for each, change in zip(turned, found, strict=True):
        assert each == load_scenario(FILE, ["cluster.nodes=1", work, *as_options(change.values)])


def test_a_single_pass_and_kept_activations_say_why_there_is_nothing_to_turn(tiny):
    assert KNOBS["passes"].options(tiny()) == "a step is one pass"
    assert KNOBS["checkpoint"].options(tiny()) == "all activations are kept already"


def test_accumulation_takes_a_second_pass_and_no_second_all_reduce(tiny):
    """10 s of passes and 2 s of all-reduce and 0.5 s of update: 22.5 s for twice the samples."""
    found = explain(tiny())
    turn = next(turn for turn in found.turns if turn.name == "accumulation")
    assert turn.result.mean_step == pytest.approx(22.5)
    assert turn.change_per_sample == pytest.approx(22.5 / 25 - 1)
    assert turn.changes_updates == ["global batch 16 -> 32"]


def test_gains_that_change_the_updates_stand_after_those_that_do_not(tiny):
    found = explain(tiny())
    keep, change, nothing = found.advice_by_heading.values()
    assert keep[0].startswith("2x faster GPUs")
    assert "gradient accumulation 1 -> 2 passes" in [line.partition(":")[0] for line in change]
    gains = [turn for turn in found.by_updates if turn.gains]
    assert [bool(turn.changes_updates) for turn in gains] == [False] * len(keep) + [True] * len(
        change
    )
    assert found.advice == [*keep, *change, *nothing]
