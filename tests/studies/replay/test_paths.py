"""Where weights go: what the plane shows is what was trained."""

from pathlib import Path

import numpy as np
import pytest

from dpsim import load_scenario
from dpsim.studies.replay import replay, weight_paths

QUICKSTART = Path(__file__).parents[3] / "scenarios" / "quickstart.yaml"
SMALL = (
    "cluster.nodes=4",
    "cluster.gpus_per_node=1",
    "replay.model=softmax",
    "replay.steps=40",
    "replay.points=10",
)


@pytest.mark.parametrize("kind", ["sma", "bsp"])
def test_it_is_the_replayed_training(kind):
    given = load_scenario(QUICKSTART, [*SMALL, f"strategy.sync.kind={kind}"])
    paths, plain = weight_paths(given), replay(given)
    assert paths.replay.curve == plain.curve
    assert len(paths.centre) == len(plain.curve.points) == 11
    assert paths.workers.shape == (11, 4 if kind == "sma" else 1, 2)


def test_the_surface_falls_along_the_way():
    """On the grid the loss is lower where the training ended than where it began."""
    paths = weight_paths(load_scenario(QUICKSTART, [*SMALL, "strategy.sync.kind=sma"]))
    ends = [
        paths.loss[np.abs(paths.up - y).argmin(), np.abs(paths.across - x).argmin()]
        for x, y in (paths.centre[0], paths.centre[-1])
    ]
    assert ends[1] < ends[0]
    assert 0 < paths.kept <= 1


def test_workers_from_their_own_starts_meet():
    given = [*SMALL, "strategy.sync.kind=sma", "replay.own_start=true"]
    paths = weight_paths(load_scenario(QUICKSTART, given))
    apart = paths.workers.std(axis=1).max(axis=1)
    assert apart[-1] < 0.1 * apart[0]
