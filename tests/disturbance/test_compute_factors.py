"""Slow workers, transient slow-downs and jitter make one factor for each step and worker, each from
streams of its own.
"""

import numpy as np
import pytest

from dpsim.base.errors import DpsimError
from dpsim.disturbance import (
    LognormalJitterConfig,
    SlowWorkersConfig,
    TransientConfig,
    compute_factors,
)


def test_without_disturbance_all_factors_are_one():
    assert (compute_factors(3, 4, seed=0, per_node=2) == np.ones((4, 3))).all()


def test_named_workers_are_slow_at_every_step():
    drawn = compute_factors(
        4, 2, seed=0, per_node=2, slow=[SlowWorkersConfig(workers=(1, 3), factor=1.5)]
    )
    assert drawn.tolist() == [[1, 1.5, 1, 1.5]] * 2


def test_workers_of_named_nodes_are_slow_at_every_step():
    slow = [SlowWorkersConfig(nodes=(1,), factor=1.5)]
    assert compute_factors(4, 2, seed=0, per_node=2, slow=slow).tolist() == [[1, 1, 1.5, 1.5]] * 2
    assert compute_factors(4, 1, seed=0, per_node=(1, 3), slow=slow).tolist() == [
        [1, 1.5, 1.5, 1.5]
    ]
    with pytest.raises(
        DpsimError, match=r"disturbance.slow\[0\].nodes: must be numbers below 1, but got 1"
    ):
        compute_factors(4, 1, seed=0, per_node=4, slow=slow)


def test_random_stragglers_that_affect_no_worker_are_noted():
    seldom = SlowWorkersConfig(fraction=1e-9, per="node")
    assert seldom.why_none_is_slow(8, 0, 2, 1) == (
        "disturbance.slow[1] slows no worker: with seed 0 a chance of 1e-09 draws none of 4 nodes; "
        "name workers or nodes instead"
    )
    assert SlowWorkersConfig(fraction=1.0).why_none_is_slow(8, 0, 2) is None
    assert SlowWorkersConfig(workers=(1,)).why_none_is_slow(8, 0, 2) is None


def test_a_worker_that_does_not_exist_is_named():
    with pytest.raises(
        DpsimError, match=r"disturbance.slow\[0\].workers: must be ranks below 4, but got 9"
    ):
        compute_factors(4, 1, seed=0, per_node=2, slow=[SlowWorkersConfig(workers=(9,))])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "must have one of workers, nodes and fraction, but got none"),
        ({"workers": [1], "fraction": 0.5}, "must have one .* but got workers and fraction"),
        ({"workers": [1], "nodes": [0]}, "must have one .* but got workers and nodes"),
        (
            {"workers": [1], "per": "node"},
            "per must be left out where workers are named, but got node",
        ),
    ],
)
def test_slow_workers_are_named_or_drawn(fields, message):
    with pytest.raises(ValueError, match=message):
        SlowWorkersConfig.model_validate(fields)


def test_a_fraction_is_slow():
    slow = (
        compute_factors(
            4000, 1, seed=0, per_node=8, slow=[SlowWorkersConfig(fraction=0.1, factor=2)]
        )[0]
        == 2
    )
    assert slow.mean() == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("disturbance", ["slow", "transient"])
def test_all_workers_of_a_node_or_rack_slow_down_at_once(disturbance):
    def drawn(per):
        if disturbance == "slow":
            one = SlowWorkersConfig(fraction=0.5, factor=2, per=per, nodes_per_rack=2)
            return compute_factors(24, 8, seed=0, per_node=3, slow=[one])
        return compute_factors(
            24,
            8,
            seed=0,
            per_node=3,
            transient=[TransientConfig(rate=0.5, factor=2, per=per, nodes_per_rack=2)],
        )

    by_node = drawn("node").reshape(8, 8, 3)
    assert (by_node == by_node[:, :, :1]).all()
    by_rack = drawn("rack").reshape(8, 4, 6)
    assert (by_rack == by_rack[:, :, :1]).all()
    assert set(drawn("rack").ravel()) == {1.0, 2.0}
    assert not (drawn("node").reshape(8, 4, 6) == drawn("node").reshape(8, 4, 6)[:, :, :1]).all()


def test_nodes_may_hold_different_numbers_of_workers():
    drawn = compute_factors(
        7,
        1,
        seed=3,
        per_node=[1, 4, 2],
        slow=[SlowWorkersConfig(fraction=0.5, factor=2, per="node")],
    )[0]
    single = compute_factors(
        3, 1, seed=3, per_node=1, slow=[SlowWorkersConfig(fraction=0.5, factor=2, per="node")]
    )[0]
    assert drawn.tolist() == np.repeat(single, [1, 4, 2]).tolist()


def test_slow_downs_begin_and_last_as_stated():
    chain = TransientConfig(rate=0.02, mean_steps=10, factor=3)
    slow = compute_factors(40, 10_000, seed=0, per_node=8, transient=[chain]) == 3
    begins = slow[1:] & ~slow[:-1]
    ends = slow[:-1] & ~slow[1:]
    assert begins.sum() / (~slow[:-1]).sum() == pytest.approx(0.02, rel=0.05)
    assert slow[:-1].sum() / ends.sum() == pytest.approx(10, rel=0.05)
    assert slow.mean() == pytest.approx(chain.slow_share, rel=0.06)
    assert chain.slow_share == pytest.approx(0.2 / 1.2)


def test_the_first_step_is_as_often_slow_as_any_other():
    chain = TransientConfig(rate=0.1, mean_steps=5, factor=2)
    first = compute_factors(5000, 1, seed=0, per_node=8, transient=[chain]) == 2
    assert first.mean() == pytest.approx(chain.slow_share, abs=0.02)


def test_one_step_slow_downs_never_last_two():
    slow = (
        compute_factors(
            20,
            2000,
            seed=0,
            per_node=8,
            transient=[TransientConfig(rate=0.3, mean_steps=1, factor=2)],
        )
        == 2
    )
    assert slow.any()
    assert not (slow[1:] & slow[:-1]).any()


def test_disturbances_multiply_and_do_not_change_each_others_draws():
    jitter, slow, chain = (
        LognormalJitterConfig(kind="lognormal"),
        SlowWorkersConfig(fraction=0.3),
        TransientConfig(rate=0.2),
    )
    single = [
        compute_factors(9, 20, 5, 3, jitter=jitter),
        compute_factors(9, 20, 5, 3, slow=[slow]),
        compute_factors(9, 20, 5, 3, transient=[chain]),
    ]
    combined = compute_factors(9, 20, 5, 3, jitter=jitter, slow=[slow], transient=[chain])
    assert np.allclose(combined, single[0] * single[1] * single[2], rtol=1e-15)
    assert np.array_equal(single[0], jitter.factors(9, 20, 5))


def test_a_worker_draws_the_same_whatever_the_others_and_the_steps():
    def drawn(workers, steps):
        slow = [
            SlowWorkersConfig(fraction=0.5),
            SlowWorkersConfig(fraction=0.5, per="node", factor=2),
        ]
        return compute_factors(
            workers, steps, 1, 4, slow=slow, transient=[TransientConfig(rate=0.3, mean_steps=2)]
        )

    assert np.array_equal(drawn(8, 10), drawn(32, 25)[:10, :8])


def test_two_alike_strike_different_workers():
    twice = [SlowWorkersConfig(fraction=0.5, factor=2), SlowWorkersConfig(fraction=0.5, factor=2)]
    assert set(compute_factors(64, 1, seed=0, per_node=8, slow=twice)[0]) == {1.0, 2.0, 4.0}
