"""``dpsim validate train``: methods beside their replay, and the report where they differ."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")

from dpsim.base.errors import DpsimError, UnknownNameError
from validate.training import METHODS, RankRecord, Training, names_of, prove
from validate.training import proof as module
from validate.training.replay import replay

pytestmark = pytest.mark.torch


def test_names_are_those_of_methods():
    assert names_of("gossip, sma") == ["gossip", "sma"]
    assert names_of("all") == [*METHODS]
    with pytest.raises(UnknownNameError, match="gosip"):
        names_of("gosip")


def record(training, wanted, **changes):
    reported = {"losses": wanted.losses[0], "step_s": [0.1] * training.steps}
    parts = {"parts_s": {"compute": [0.05] * training.steps}, "weights": wanted.weights}
    return RankRecord("whole-batch", 0, 1, **{**reported, **parts, **changes})


def test_too_few_ranks_are_reported_before_any_starts():
    with pytest.raises(DpsimError, match="backup: ranks must be at least 3, but got 2"):
        prove(["library", "backup"], Training(), ranks=2)


def test_a_run_that_differs_from_its_replay_is_reported():
    training = Training(steps=2, batch=4)
    wanted = replay(module.method_named("whole-batch"), [RankRecord("whole-batch", 0, 1)], training)
    right = module._proof("whole-batch", [record(training, wanted)], training)
    assert (right.equal, right.off) == (True, 0)
    moved = record(training, wanted, weights=wanted.weights + 1e-6)
    wrong = module._proof("whole-batch", [moved], training)
    assert not wrong.equal
    assert wrong.off == pytest.approx(1e-6)
    assert np.isfinite(right.step_s)


def test_the_command_trains_beside_ddp(dpsim):
    code, out, err = dpsim("validate", "train", "gossip", "--ranks", 2, "--steps", 2, "--json")
    assert code == 0, err
    content = json.loads(out)
    assert content["ranks"] == 2
    assert [row["method"] for row in content["rows"]] == ["gossip", "ddp", "data-parallel"]
    gossip, ddp, data_parallel = content["rows"]
    assert gossip["equal"]
    assert ddp["equal"]
    assert len(gossip["losses"]) == 2
    assert data_parallel["not_run"] or data_parallel["equal"]
