"""Tables of the README, and the tour of the scenarios, hold what is predicted; tests/docs holds
their blocks to it.
"""

import re
from pathlib import Path
from typing import get_args

import pytest

from dpsim import load_scenario, simulate
from dpsim.strategy import StrategyConfig

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
TOUR = (ROOT / "scenarios" / "tour.md").read_text()


@pytest.mark.parametrize("part", ["aggregation", "sync", "overlap"])
def test_the_tour_links_a_scenario_of_every_kind(part):
    linked = sorted(set(re.findall(r"\]\(([\w-]+\.yaml)\)", TOUR)))
    shown = {
        getattr(load_scenario(ROOT / "scenarios" / name).strategy, part).kind for name in linked
    }
    configs = get_args(StrategyConfig.model_fields[part].annotation)
    assert shown == {
        name for config in configs for name in get_args(config.model_fields["kind"].annotation)
    }


@pytest.mark.parametrize("gpus", [8, 256, 352])
def test_the_table_of_goyal_et_al_is_what_is_predicted(gpus):
    row = re.search(rf"^\| {gpus} \| ([\d.]+) ms \| ([\d.]+) ms \|", README, re.MULTILINE)
    predicted = simulate(
        load_scenario(ROOT / "scenarios" / "imagenet" / f"goyal-2017-{gpus}gpus.yaml")
    ).step_time_s["mean"]
    assert f"{predicted * 1e3:.1f}" == row[2]
