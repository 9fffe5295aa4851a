"""What is kept in the host's memory, and what its copies and its update cost a step."""

import numpy as np
import pytest

from dpsim import Scenario
from dpsim.base.errors import DpsimError
from dpsim.engine import memory_use
from dpsim.engine.offload import overlap_copies
from dpsim.engine.preparation import prepare
from dpsim.topology import host_copy_rates, host_memory_rates

GB = 1e9


def scenario(offload=None, *, node="dgx-a100", workload=(), **aggregation):
    content = {
        "name": "offload",
        "cluster": {"nodes": 1, "node": node, "network": {"fabric": "leaf-spine", "nic": "ib-hdr"}},
        "workload": {
            "model": "gpt2-xl",
            "batch_per_gpu": 1,
            "precision": "bf16",
            "optimizer": "adamw",
            **dict(workload),
        },
        "strategy": {
            "aggregation": {
                "kind": "sharded",
                "wrap": "block",
                "weight_bytes": 2,
                **aggregation,
                **({} if offload is None else {"offload": offload}),
            },
            "overlap": {"kind": "wfbp"},
        },
    }
    return Scenario.model_validate(content)


def times(*arguments, **settings):
    (found,) = prepare(scenario(*arguments, **settings)).times
    return found


@pytest.mark.parametrize(
    ("seconds", "coming", "going", "taken", "left"),
    [
        # Nothing is copied.
        ([1, 2], [0, 0], [0, 0], [1, 2], 0),
        # The first copy is waited for; the second comes while the first part computes.
        ([3, 3], [1, 2], [0, 0], [4, 3], 0),
        # Copies that take longer than the parts set the pace.
        ([1, 1, 1], [2, 2, 2], [0, 0, 0], [3, 2, 2], 0),
        # What goes out does so beside the parts behind it, and the last of it afterwards.
        ([2, 2, 2], [0, 0, 0], [1, 1, 1], [2, 2, 2], 1),
        # Two are out at most: the third part waits until the first copy is through.
        ([1, 1, 1], [0, 0, 0], [4, 4, 4], [1, 1, 4], 7),
    ],
)
def test_parts_wait_for_copies(seconds, coming, going, taken, left):
    assert overlap_copies(seconds, coming, going) == (taken, left)


def test_nothing_away_costs_nothing():
    usual, none = times(), times({"optimizer": "none"})
    assert (usual.step, usual.optimizer) == (none.step, none.optimizer)


def test_the_update_is_bound_by_the_processors_memory():
    cluster = prepare(scenario()).cluster
    # Two processors of 204.8 GB/s for eight GPUs, of which the update reaches 46 %.
    assert host_memory_rates(cluster).tolist() == [51.2 * GB] * 8
    elements = scenario().build_model().parameters / 8
    on_gpu, away = times(), times({"optimizer": "cpu"})
    # Weights, gradients, two moments, and the copy in half precision.
    update = elements * (28 + 2) / (0.46 * 51.2 * GB)
    assert away.optimizer > update > on_gpu.optimizer
    assert away.optimizer == pytest.approx(update, rel=0.1)


def test_drives_read_the_whole_state():
    elements = scenario().build_model().parameters / 8
    update = elements * 12 / (6 * GB / 8)
    assert times({"optimizer": "nvme"}).optimizer == pytest.approx(update, rel=0.01)


def test_weights_come_before_each_pass_of_each_unit():
    rate = host_copy_rates(prepare(scenario()).cluster)[0]
    usual, away = times(), times({"parameters": "cpu"})
    model = scenario().build_model()
    copies = 2 * model.parameters / 8 / rate
    # The passes are longer by what nothing hides: the first unit of forward at least, all at most.
    longer = away.forward.sum() - usual.forward.sum()
    assert 0 < longer <= copies
    nvme = times({"parameters": "nvme", "nvme_rate": "1 GB/s"})
    # A drive that all share sets the pace of both passes.
    assert nvme.one_pass == pytest.approx(2 * 2 * model.parameters / 1e9, rel=0.05)


def test_kept_weights_come_once():
    slow = {"parameters": "nvme", "nvme_rate": "1 GB/s"}
    twice, once = times(slow), times(slow, reshard_after_forward=False)
    assert once.backward.sum() < 0.1 * twice.backward.sum()


def test_activations_leave_and_come_back():
    whole = memory_use(scenario()).report()
    away = memory_use(scenario({"activations": "cpu"})).report()
    part, all_of_it = (each["parts_bytes"]["activations"] for each in (away, whole))
    assert part < 0.1 * all_of_it
    assert away["offloaded_bytes"] == pytest.approx(all_of_it - part)
    # On a PCIe bus that two GPUs share they take longer than the passes.
    rate = host_copy_rates(prepare(scenario()).cluster)[0]
    step = times({"activations": "cpu"})
    assert step.forward.sum() == pytest.approx(all_of_it / rate, rel=0.1)


@pytest.mark.parametrize("place", ["cpu", "nvme"])
def test_memory_of_what_is_away(place):
    model = scenario().build_model()
    held = memory_use(scenario({"optimizer": place, "parameters": place})).report()
    parts = held["parts_bytes"]
    assert (parts["weights"], parts["gradients"], parts["optimizer"]) == (0, 0, 0)
    assert held["offloaded_bytes"] == pytest.approx(16 * model.parameters / 8)


def test_gradients_that_add_up_over_passes_stay():
    two = memory_use(scenario({"optimizer": "cpu"}, workload={"gradient_accumulation": 2}.items()))
    assert two.held.gradients == 2 * two.model.parameters


def test_frozen_weights_are_copied_and_not_updated():
    part = {"trainable": {"lora": {"rank": 4}}}.items()
    away = {"optimizer": "cpu", "parameters": "cpu"}
    whole, lora = times(away), times(away, workload=part)
    assert lora.optimizer < 0.01 * whole.optimizer + times().optimizer


@pytest.mark.parametrize(
    ("offload", "settings", "problem"),
    [
        ({"parameters": "cpu"}, {"stage": 2}, r"offload.parameters must be none where .*stage 2"),
        ({"optimizer": "disk"}, {}, "optimizer"),
    ],
)
def test_what_cannot_be_away(offload, settings, problem):
    with pytest.raises(ValueError, match=problem):
        scenario(offload, **settings)


def test_a_node_of_unknown_memory_has_no_update_on_its_processors(monkeypatch):
    monkeypatch.setattr("dpsim.engine.offload.host_memory_rates", lambda cluster: np.zeros(8))
    with pytest.raises(DpsimError, match="must be none on a node whose processors' memory"):
        times({"optimizer": "cpu"})
