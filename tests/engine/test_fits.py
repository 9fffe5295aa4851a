"""Whether scenarios fit, and the errors where they do not."""

import json
from pathlib import Path

import pytest

from dpsim import load_scenario, simulate
from dpsim.base.errors import DpsimError
from dpsim.engine.memory import memory_use

QUICKSTART = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"


def quickstart(*overrides):
    return load_scenario(QUICKSTART, ["run.steps=2", "run.warmup=0", *overrides])


def test_a_scenario_that_does_not_fit_is_refused_with_the_smallest_remedy():
    with pytest.raises(DpsimError) as error:
        simulate(quickstart("workload.batch_per_gpu=200"))
    text = str(error.value)
    assert text.startswith("workload: must fit in the 16.9 GB of v100-sxm2-16gb, but takes 19")
    assert "to make it fit: checkpoint activations, or take at most 173 samples at a time" in text
    assert "\n" not in text


def test_a_job_that_does_not_fit_is_simulated_when_allowed():
    result = simulate(quickstart("workload.batch_per_gpu=200", "run.allow_out_of_memory=true"))
    assert not result.memory.fits
    assert result.to_json()["memory"]["fits"] is False


def test_the_results_memory_adds_up():
    memory = simulate(quickstart()).to_json()["memory"]
    assert sum(memory["parts_bytes"].values()) == pytest.approx(memory["total_bytes"])
    assert memory["parts_bytes"]["weights"] == 4 * 25_557_032
    assert memory["parts_bytes"]["activations"] == 64 * 4 * 20_926_440
    assert memory["capacity_bytes"] == 16_160 * 2**20
    assert memory["fits"]


def test_the_advice_for_gpt3_is_a_split():
    """350 GB of half-precision weights do not fit in 85.5 GB, the 80 of an H100."""
    gpt3 = [
        "workload.model=gpt3-175b",
        "workload.precision=fp16",
        "workload.optimizer=adam",
        "workload.batch_per_gpu=1",
    ]
    use = memory_use(quickstart("cluster.node=dgx-h100", "cluster.nodes=1", *gpt3))
    assert use.report()["split_ways"] == {"weights_alone": 5, "training": 35}
    shards, split = use.advice()
    assert shards.startswith("shard with ZeRO 3 / FSDP over at least ")
    assert split == (
        "split the model at least 35 ways (its weights alone, 349 GB, take 5 such GPUs)"
    )
    sharded = memory_use(quickstart("cluster.node=dgx-h100", "cluster.nodes=64", *gpt3)).advice()
    assert len(sharded) == 2
    assert sharded[0].startswith("shard with ZeRO 3 / FSDP")
    assert sharded[1].startswith("split the model at least 35 ways")


def test_where_only_more_gpus_help_it_says_how_many():
    def use(nodes):
        sharded = ("strategy.aggregation={kind: sharded, stage: 3}", "workload.checkpoint=full")
        cluster = ("cluster.node=dgx-h100", f"cluster.nodes={nodes}", "cluster.gpus_per_node=1")
        model = ("workload={model: llama3-70b, batch_per_gpu: 1, precision: bf16}",)
        return memory_use(quickstart(*cluster, *model, *sharded, "workload.optimizer=adamw"))

    advice = use(8).advice()[0]
    assert advice.startswith("shard with ZeRO 3 / FSDP over at least ")
    gpus = int(advice.split(" over at least ")[1].split()[0])
    assert use(gpus).fits
    assert not use(gpus - 1).fits


def test_checkpointing_and_accumulation_make_it_fit():
    assert not memory_use(quickstart("workload.batch_per_gpu=200")).fits
    assert memory_use(quickstart("workload.batch_per_gpu=200", "workload.checkpointing=full")).fits
    passes = ["workload.batch_per_gpu=100", "workload.gradient_accumulation=2"]
    assert (
        memory_use(quickstart(*passes)).held
        == memory_use(quickstart("workload.batch_per_gpu=100")).held
    )
    segments = memory_use(quickstart("workload.checkpointing=every 3 layers")).setup
    assert (segments.checkpointing, segments.recompute.layers) == (True, 3)


def test_of_several_kinds_of_gpu_the_smallest_memory_counts():
    groups = "cluster={groups: [{node: dgx-a100}, {node: dgx1-v100}]}"
    assert memory_use(quickstart(groups)).gpu == "v100-sxm2-16gb"


def test_the_report_has_all_stages_with_and_without_checkpointing():
    rows = memory_use(quickstart()).report()["stages"]
    assert [(row["checkpointing"], row["stage"]) for row in rows] == [
        (c, s) for c in (False, True) for s in range(4)
    ]
    assert json.loads(json.dumps(rows)) == rows


def test_where_larger_groups_help_it_says_of_what_size():
    def use(group):
        sharded = f"strategy.aggregation={{kind: sharded, stage: 3, shard_group: {group}}}"
        model = "workload={model: llama3-70b, batch_per_gpu: 1, precision: bf16, checkpoint: full}"
        nodes = ("cluster.node=dgx-h100", "cluster.nodes=16")
        return memory_use(quickstart(*nodes, model, sharded, "workload.optimizer=adamw"))

    (advice, _) = use(8).advice()
    assert advice.startswith(
        "shard over groups of 32 GPUs (shard_group, or sync.group where it is set)"
    )
    assert use(32).fits
    assert not use(16).fits


def test_what_is_checkpointed_in_part_may_be_in_full():
    model = "workload={model: llama3-70b, batch_per_gpu: 1, precision: bf16, checkpoint: selective}"
    sharded = "strategy.aggregation={kind: sharded, stage: 3, weight_bytes: 2}"
    nodes = ("cluster.node=dgx-h100", "cluster.nodes=64")
    use = memory_use(quickstart(*nodes, model, sharded, "workload.optimizer=adamw"))
    assert use.advice()[0] == "checkpoint activations"
    assert memory_use(
        quickstart(*nodes, model, sharded, "workload.optimizer=adamw", "workload.checkpoint=full")
    ).fits
