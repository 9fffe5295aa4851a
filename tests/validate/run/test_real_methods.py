"""Which method of training does what a strategy says."""

from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

if find_spec("torch"):
    import numpy as np

    from dpsim.base.errors import DpsimError
    from dpsim.engine.kernel import slow_downs
    from dpsim.engine.preparation import prepare
    from dpsim.scenario import load_scenario
    from dpsim.workload import MeasuredTimes
    from validate.run.methods import method_of
    from validate.run.real import waits_of

SCENARIO = Path(__file__).parents[3] / "scenarios" / "testbed" / "allreduce.yaml"
SECONDS = 0.152  # of one worker's step, by the scenario's profile
PS = "strategy.aggregation={kind: parameter-server, servers: 1}"


@pytest.mark.parametrize(
    ("sets", "method", "settings"),
    [
        ([], "schedule", {"algorithm": "ring"}),
        (["strategy.aggregation.algorithm=tree"], "schedule", {"algorithm": "tree"}),
        (["strategy.aggregation.library=gloo"], "library", {}),
        (["strategy.overlap={kind: buckets, bucket_size: 1 MB}"], "buckets", {"bucket_size": 1e6}),
        (
            [
                "strategy.aggregation.library=gloo",
                "strategy.overlap={kind: buckets, first_bucket: 1 kB}",
            ],
            "buckets",
            {"first_bucket": 1e3},
        ),
        (["strategy.compression={kind: top-k, density: 0.1}"], "compressed", {}),
        (
            ["strategy.sync={kind: local-sgd, every: 3, switch_after: 2}"],
            "local-sgd",
            {"every": 3, "switch": 2},
        ),
        (
            ["strategy.sync={kind: sma, correction: 0.25, momentum: 0.5}"],
            "sma",
            {"learners": 1, "correction": 0.25, "momentum": 0.5},
        ),
        (
            ["strategy.aggregation={kind: gossip, graph: exponential}"],
            "gossip",
            {"graph": "exponential"},
        ),
        (["strategy.aggregation.kind=gossip", "strategy.sync.kind=asp"], "ad-psgd", {}),
        ([PS], "parameter-server", {"sync": "bsp", "servers": 1}),
        (
            [PS, "strategy.sync={kind: ssp, staleness: 2}"],
            "parameter-server",
            {"sync": "ssp", "staleness": 2},
        ),
        ([PS, "strategy.sync={kind: backup, backups: 2}"], "backup", {"spare": 2}),
    ],
)
def test_a_strategy_has_the_method_that_does_the_same(sets, method, settings):
    found = method_of(load_scenario(SCENARIO, sets))
    assert found.kind == method
    assert {name: getattr(found, name) for name in settings} == settings


@pytest.mark.parametrize(
    "sets",
    [
        ["strategy.overlap.kind=priority"],
        ["strategy.aggregation.kind=sharded"],
        ["strategy.sync.kind=sma", "workload.learners_per_gpu=2"],
        ["strategy.sync.kind=sma", "strategy.aggregation.algorithm=tree"],
        ["strategy.sync={kind: local-sgd, every: 100, unit: samples}"],
        ["strategy.aggregation.algorithm=tree", "strategy.overlap.kind=buckets"],
        ["strategy.aggregation.algorithm=tree", "strategy.sync.kind=local-sgd"],
        ["strategy.aggregation.algorithm=tree", "strategy.compression.kind=cast"],
        ["strategy.aggregation.library=gloo", "strategy.overlap.kind=wfbp"],
        ["strategy.aggregation={kind: parameter-server, servers: 2}", "strategy.sync.kind=backup"],
        [PS, "strategy.overlap.kind=wfbp"],
    ],
)
def test_a_strategy_without_a_method_is_refused(sets):
    with pytest.raises(DpsimError, match="with a method for real computing"):
        method_of(load_scenario(SCENARIO, sets))


def test_what_disturbs_the_network_is_refused():
    with pytest.raises(
        DpsimError, match=r"disturbance\.background: must be left out of real runs, but got 1"
    ):
        method_of(load_scenario(SCENARIO, ["disturbance.background=[{source: 0, destination: 1}]"]))


def test_a_slow_worker_waits_for_as_long_as_it_is_slower():
    """Worker 1 takes 1.5 times what the others take; none is faster than a single one, so that nothing
    is stretched.
    """
    waits = waits_of(
        prepare(
            load_scenario(
                SCENARIO, ["disturbance.slow=[{workers: [1], factor: 1.5}]", "run.steps=3"]
            )
        )
    )
    assert waits.stretch == 1
    assert [len(own) for own in waits.seconds] == [5] * 4
    assert waits.seconds[0] == (0.0,) * 5
    assert waits.seconds[1] == pytest.approx((0.5 * SECONDS,) * 5)


def test_draws_below_1_stretch_everything():
    job = prepare(load_scenario(SCENARIO, ["disturbance.jitter={kind: lognormal, sigma: 0.2}"]))
    waits, factors = waits_of(job), slow_downs(job)
    assert waits.stretch == pytest.approx(1 / factors.min())
    assert min(min(own) for own in waits.seconds) == pytest.approx(0, abs=1e-12)
    assert pytest.approx(factors * waits.stretch * SECONDS) == np.array(waits.seconds).T + SECONDS


def test_stretched_times_are_the_same_in_everything_else():
    times = MeasuredTimes(
        batch_sizes=(4,),
        forward_s=((1.0, 2.0),),
        backward_s=((3.0, 4.0),),
        optimizer_s=(5.0,),
        device="a",
    )
    twice = times.scaled(2.0)
    assert (twice.forward_s, twice.backward_s, twice.optimizer_s) == (
        ((2.0, 4.0),),
        ((6.0, 8.0),),
        (10.0,),
    )
    assert (twice.batch_sizes, twice.device) == ((4,), "a")
