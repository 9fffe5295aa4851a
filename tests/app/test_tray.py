"""The comparison: scenarios as columns of one table, with what differs and what is noise."""

import re
from html import unescape

from app_pages import html

from app.presets import preset_path
from app.spec import MOST_COMPARED
from dpsim.studies.compare import compare

LLAMA = "llama3-8b-8-h100-fsdp"
SHORT = ["run.steps=2", "run.warmup=0"]


def button(page, label):
    (found,) = [each for each in page.button if each.label == label]
    return found


def table(page):
    """By the name of each row its cells."""
    (shown,) = re.findall('<div class="dp-compared".*?</table>', html(page))
    cells = [
        re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row) for row in re.findall("<tr>.*?</tr>", shown)
    ]
    return {unescape(name): values for name, *values in cells}


def compared(*columns):
    """The query of columns, each a preset with changes."""
    query = {}
    for number, (preset, *changes) in enumerate(columns, 1):
        query |= {f"{number}-preset": preset, f"{number}-set": [*SHORT, *changes]}
    return query


def test_undecided_differences_are_grey_as_in_dpsim_compare(open_page):
    changes = ([], ["cluster.nodes=2"], ["workload.precision=fp32"])
    page = open_page(
        "topology", preset=LLAMA, set=SHORT, **compared(*([LLAMA, *each] for each in changes))
    )
    steps = table(page)["step time"]
    alternatives = [",".join(each) for each in changes if each]
    output = compare(
        preset_path(LLAMA), alternatives=alternatives, by="step-time", overrides=SHORT
    ).to_json()
    left_open = {row["step_time_s"]["mean"]: row["is_best_too"] for row in output["rows"]}
    assert "within the noise" in steps[1]
    assert "dp-delta good" not in steps[1]
    assert "dp-delta bad" in steps[2]
    assert sorted(left_open.values()) == [False, True, True]


def test_a_column_that_does_not_fit_or_is_invalid_keeps_the_others(open_page):
    columns = compared(
        ["resnet50-32-v100-25gbe"],
        ["resnet50-32-v100-25gbe", "workload.batch_per_gpu=512"],
        ["resnet50-32-v100-25gbe", "cluster.nodes=-1"],
    )
    page = open_page("topology", preset=LLAMA, set=SHORT, **columns)
    assert not page.exception
    found = table(page)
    assert len(found[""]) == 2
    assert found["fits"] == ["yes", "no"]
    assert found["step time"][1] == ""
    assert found["memory of a GPU"][1] != ""
    output = [each.value for each in page.caption if each.value.startswith("scenario ")]
    assert [each.partition(":")[0] for each in output] == ["scenario 2", "scenario 3"]


def test_a_column_can_be_shown_or_removed_and_a_full_table_takes_no_more(open_page):
    every = compared(*([LLAMA, f"run.seed={seed}"] for seed in range(MOST_COMPARED)))
    page = open_page("topology", preset=LLAMA, set=SHORT, **every)
    assert button(page, "Add to comparison").disabled
    button(page, "show 2").click().run()
    assert page.query_params["set"] == [*SHORT, "run.seed=1"]
    button(page, "Remove from comparison").click().run()
    assert page.query_params["2-set"] == [*SHORT, "run.seed=2"]
    assert f"{MOST_COMPARED}-set" not in page.query_params
    button(page, "remove all").click().run()
    assert "1-preset" not in page.query_params
    assert not button(page, "Add to comparison").disabled
