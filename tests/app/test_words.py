"""What people call a scenario, its fields, and what has changed in it."""

import pytest

from app import forms
from app.answers import node_counts
from app.presets import preset_names, searched
from app.reading import scenario
from app.spec import Spec
from app.words import (
    changes,
    choice_words,
    described,
    field_words,
    kind_words,
    of_capacity,
    reason_words,
)

FIRST = Spec("resnet50-32-v100-25gbe")


def test_field_labels_have_no_underscores_or_abbreviations():
    assert field_words("pue") == "PUE"
    assert field_words("batch_per_gpu") == "batch per GPU"
    for path in ("cluster", "workload", "cost", "run"):
        for field in forms.fields(forms.part(path), path):
            assert "_" not in field_words(field.name)


def test_a_refused_field_has_its_display_name():
    refused = "strategy.aggregation.shard_group: must divide the 8 workers, but got 64"
    assert reason_words(refused) == "shard group must divide the 8 workers, but got 64"
    option = f"--set strategy.aggregation={{kind: sharded, stage: 3}}: {refused}"
    assert reason_words(option) == reason_words(refused)
    other = "too large for this page: simulating 64 GPUs"
    assert reason_words(other) == other


def test_memory_has_the_unit_of_the_capacity_where_it_suits():
    assert of_capacity(12.4e9, 16.9e9) == "12.4 of 16.9 GB"
    assert of_capacity(8.79e15, 16e9) == "8.79 PB of 16 GB"


def test_presets_are_found_in_any_spelling_titles_first():
    for requested in ("llama-3", "llama 3", "Llama3", "lama 3"):
        assert searched(requested)[0] == "llama3-8b-8-h100-fsdp"
    assert searched("asynchronus") == ["resnet50-8-v100-asynchronous"]
    assert searched("palm") == []


def test_kinds_and_columns_are_words():
    assert (kind_words("bsp"), kind_words("ring")) == ("BSP", "ring")
    assert choice_words("step_time_s") == "step time s"


def test_the_description_has_what_the_title_leaves_out():
    assert described(scenario(FIRST)) == (
        "V100-SXM2-16GB in 4 nodes; 64 samples a GPU and step; all-reduce, BSP"
    )


def test_changes_have_both_values_and_only_the_first_of_many_are_listed():
    changed = (
        FIRST.with_value("cluster.nodes", "8")
        .without("strategy.sync")
        .with_value("strategy.sync.kind", "ssp")
    )
    assert changes(FIRST, changed) == "nodes 4 to 8, sync BSP to SSP"
    assert changes(FIRST, FIRST) == ""
    # Values that change as a consequence are not listed.
    assert changes(FIRST, FIRST.with_value("replay.steps", "60")) == "steps 300 to 60"
    many = changed.with_options(
        ["workload.batch_per_gpu=32", "run.steps=4", "run.warmup=1", "run.seed=3"]
    )
    assert changes(FIRST, many).endswith(" and 2 more")


@pytest.mark.parametrize("preset", preset_names())
def test_a_curve_has_a_few_node_counts_among_them_one_and_the_scenarios(preset):
    counts = list(map(int, node_counts(Spec(preset))))
    assert counts == sorted(set(counts))
    assert counts[0] == 1
    assert scenario(Spec(preset)).cluster.nodes in counts
    assert len(counts) <= 7
