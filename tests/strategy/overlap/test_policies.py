"""Overlap policies: what each of them merges and in which order, and the laws between them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.strategy import StrategyConfig
from dpsim.strategy.aggregation import CollectiveCall
from dpsim.strategy.overlap import (
    BucketsConfig,
    MgWfbpConfig,
    Outlook,
    PriorityConfig,
    SequentialConfig,
    WfbpConfig,
)
from tools.combinations_page import kinds_of

POLICIES = [
    *(
        StrategyConfig.model_validate({"overlap": {"kind": kind}}).overlap
        for kind in kinds_of("overlap")
    ),
    MgWfbpConfig(kind="mg-wfbp", merge="exact"),
    BucketsConfig(kind="buckets", bucket_size="100 B", first_bucket="10 B"),
    PriorityConfig(kind="priority", slice_size="64 B"),
]


def model(backward, sizes, forward=1.0):
    """One tensor a layer, in forward order; backward passes of the given seconds, forward passes of
    1 s, no update.
    """
    layers = len(sizes)
    positions = np.cumsum([0.0, *[forward] * layers, *reversed(backward), 0.0])
    end = 2 * layers
    calls = tuple(
        CollectiveCall(f"t{layer}", sizes[layer], end - layer, end)
        for layer in reversed(range(layers))
    )
    return calls, positions


def finish(plan, outlook):
    """When the last call ends, one after the other at alpha + beta n."""
    free = 0.0
    for call in plan:
        free = max(free, outlook.ready(call)) + outlook.seconds(call.nbytes)
    return free


models = st.lists(st.tuples(st.floats(0.01, 10), st.integers(1, 500)), min_size=1, max_size=12).map(
    lambda layers: model([seconds for seconds, _ in layers], [size for _, size in layers])
)
costs = st.tuples(st.floats(0, 5), st.floats(0, 0.1))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: f"{p.kind}-{getattr(p, 'merge', '')}")
@given(model=models, cost=costs)
def test_no_policy_loses_or_repeats_a_byte_or_sends_before_it_is_there(policy, model, cost):
    calls, positions = model
    plan = policy.plan(calls, Outlook(positions, *cost))
    assert sum(call.nbytes for call in plan) == sum(call.nbytes for call in calls)
    by_ready = {call.ready: 0 for call in calls}
    for call in calls:
        by_ready[call.ready] += call.nbytes
    for ready in (
        by_ready
    ):  # what is sent with a ready position up to here cannot be more than what is there
        there = sum(nbytes for when, nbytes in by_ready.items() if when <= ready)
        assert sum(call.nbytes for call in plan if call.ready <= ready) <= there


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: f"{p.kind}-{getattr(p, 'merge', '')}")
@given(model=models, cost=costs)
def test_what_does_not_mind_times_plans_alike_whatever_takes_how_long(policy, model, cost):
    calls, positions = model
    if not policy.needs_times:
        no_time = Outlook(np.zeros_like(positions), 0.0, 0.0)
        assert policy.plan(calls, Outlook(positions, *cost)) == policy.plan(calls, no_time)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: f"{p.kind}-{getattr(p, 'merge', '')}")
def test_only_what_says_so_sends_each_tensor_by_itself_as_soon_as_it_is_there(policy):
    calls, positions = model([1.0, 1.0, 1.0], [200, 200, 200])
    # A start-up of ten layers' time, for which whoever can waits, merges or changes the order.
    plan = policy.plan(calls, Outlook(positions, 10.0, 0.0))
    assert (plan == calls) == policy.merges_nothing


@given(model=models, cost=costs)
def test_merging_is_never_slower_than_not_merging_nor_than_merging_everything(model, cost):
    calls, positions = model
    outlook = Outlook(positions, *cost)
    ends = {
        name: finish(policy.plan(calls, outlook), outlook)
        for name, policy in (
            ("wfbp", WfbpConfig(kind="wfbp")),
            ("all", SequentialConfig(kind="sequential")),
            ("greedy", MgWfbpConfig(kind="mg-wfbp")),
            ("exact", MgWfbpConfig(kind="mg-wfbp", merge="exact")),
        )
    }
    tolerance = 1 + 1e-12
    assert ends["greedy"] <= ends["wfbp"] * tolerance
    assert ends["greedy"] <= ends["all"] * tolerance
    assert ends["exact"] <= ends["greedy"] * tolerance


def test_a_start_up_that_costs_more_than_waiting_is_saved():
    calls, positions = model([2.0, 1.0, 1.0], [10, 10, 10])
    names = [
        call.name
        for call in MgWfbpConfig(kind="mg-wfbp").plan(
            calls, Outlook(positions, alpha=1.5, beta=0.0)
        )
    ]
    assert names == [
        "merged0",
        "merged1",
    ]  # the sum of layers 2 and 1: 1 s of waiting is less than 1.5 s, 2 s are not


def test_buckets_are_closed_when_they_are_full():
    calls, positions = model([1.0] * 5, [60, 60, 60, 60, 60])
    plan = BucketsConfig(kind="buckets", bucket_size="100 B", first_bucket="10 B").plan(
        calls, Outlook(positions, 0, 0)
    )
    assert [(call.nbytes, call.ready) for call in plan] == [(60, 6), (120, 8), (120, 10)]


def test_front_layers_overtake():
    """While the large last layer is under way, the others become ready; the first layer goes next
    though it came last.
    """
    calls, positions = model([1.0, 1.0, 1.0], [64, 64, 128])
    plan = PriorityConfig(kind="priority", slice_size="64 B").plan(
        calls, Outlook(positions, alpha=0, beta=3 / 64)
    )
    assert [call.name for call in plan] == ["t2/0", "t0", "t1", "t2/1"]
    assert [call.needed - 7 for call in plan] == [
        2,
        0,
        1,
        2,
    ]  # where each layer's forward pass begins in the next step
