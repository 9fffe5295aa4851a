import numpy as np
import pytest

from dpsim.base.errors import DpsimError, FailedError
from dpsim.collectives import algorithm
from dpsim.network import (
    MODEL_KINDS,
    Background,
    ClosedFormModel,
    Conditions,
    ConfirmedRounds,
    FlowsModel,
    RoundsModel,
    collective_model,
    named_model,
)
from dpsim.topology import ClusterConfig, UniformSwitch, build_cluster

RING = algorithm("ring")
SWITCH = UniformSwitch(4, 50e9, 500e-9)
CLUSTER = build_cluster(ClusterConfig(nodes=2, node="single-gpu"))
TRAFFIC = Conditions((Background(0, 1, 1e9),))


@pytest.mark.parametrize(
    ("network", "common_start", "conditions", "expected"),
    [
        (SWITCH, True, None, ClosedFormModel),
        (SWITCH, False, None, ConfirmedRounds),
        (SWITCH, True, TRAFFIC, FlowsModel),
        (CLUSTER, True, None, ConfirmedRounds),
        (CLUSTER, False, None, ConfirmedRounds),
        (CLUSTER, False, TRAFFIC, FlowsModel),
    ],
)
def test_auto_is_the_cheapest_that_is_right(network, common_start, conditions, expected):
    model = collective_model(
        "auto", RING, network, common_start=common_start, conditions=conditions
    )
    assert type(model) is expected


def test_by_default_every_rank_may_start_at_its_own_time():
    assert type(collective_model("auto", RING, SWITCH)) is ConfirmedRounds


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("rounds", RoundsModel), ("flows", FlowsModel), ("closed-form", ClosedFormModel)],
)
@pytest.mark.parametrize("common_start", [True, False])
def test_a_named_kind_is_taken_however_ranks_start(kind, expected, common_start):
    assert type(collective_model(kind, RING, SWITCH, common_start=common_start)) is expected


@pytest.mark.parametrize("name", ["ring", "auto"])
@pytest.mark.parametrize("kind", ["rounds", "closed-form"])
def test_other_traffic_is_refused_where_a_model_would_leave_it_out(kind, name):
    with pytest.raises(DpsimError, match="network model must be flows or auto with other traffic"):
        named_model(kind, name, CLUSTER, conditions=TRAFFIC)


def test_kinds_in_order():
    assert MODEL_KINDS == ("auto", "rounds", "flows", "closed-form")


def test_closed_form_is_refused_on_a_cluster():
    with pytest.raises(
        DpsimError,
        match="must be rounds, flows or auto on a cluster: closed-form is for one uniform switch",
    ):
        collective_model("closed-form", RING, CLUSTER)


def test_closed_form_waits_for_the_last_to_start():
    finishes = ClosedFormModel(RING, SWITCH).finish(np.array([0.0, 3.0, 1.0, 2.0]), 0).finishes
    assert finishes == pytest.approx([3 + 6 * 500e-9] * 4)


@pytest.mark.parametrize(
    ("kind", "here", "needed"), [("rounds", 0.5e9, "0.537 GB"), ("flows", 4e9, "4.86 GB")]
)
def test_a_round_that_has_no_room_is_refused_before_it_is_laid_out(monkeypatch, kind, here, needed):
    # 4,096 ranks: 16.8 million transfers of two hops, 290 B each; 32 B where rounds take blocks.
    monkeypatch.setattr("dpsim.base.budget.available_memory", lambda: here)
    with pytest.raises(FailedError, match=f"4,096 ranks would need about {needed}.*take fewer"):
        named_model(kind, "all-to-all", UniformSwitch(4096, 1e9, 0.0))


def test_a_schedule_whose_rounds_do_not_fit_in_memory_at_once_is_refused(monkeypatch):
    # By numpy, where rounds stay laid out.
    monkeypatch.setattr("dpsim.network.flows_model.kernel", lambda seconds: None)
    monkeypatch.setattr("dpsim.base.budget.available_memory", lambda: 1e8)
    model = named_model("flows", "ring", UniformSwitch(512, 1e9, 0.0))
    with pytest.raises(FailedError, match=r"ring of 512 ranks as flows .* \(network_model: auto\)"):
        model.finish(np.zeros(512), 2**20)
