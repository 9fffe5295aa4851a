"""Which method of training does what a strategy says."""

from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.skipif(find_spec("torch") is None, reason="pip install 'dpsim[validate]'")]

if find_spec("torch"):
    from dpsim.errors import DpsimError
    from dpsim.scenario import load_scenario
    from validate.running.real import method_of

SCENARIO = Path(__file__).parents[3] / "scenarios" / "testbed" / "allreduce.yaml"
PS = "strategy.aggregation={kind: parameter-server, servers: 1}"


@pytest.mark.parametrize(
    ("sets", "method", "settings"),
    [
        ([], "schedule", {"algorithm": "ring"}),
        (["strategy.aggregation.algorithm=tree"], "schedule", {"algorithm": "tree"}),
        (["strategy.overlap={kind: buckets, bucket_size: 1 MB}"], "buckets", {"bucket_size": 1e6}),
        (["strategy.compression={kind: top-k, density: 0.1}"], "compressed", {}),
        (["strategy.sync={kind: local-sgd, every: 3, switch_after: 2}"], "local-sgd", {"every": 3, "switch": 2}),
        (["strategy.aggregation={kind: gossip, graph: exponential}"], "gossip", {"graph": "exponential"}),
        (["strategy.aggregation.kind=gossip", "strategy.sync.kind=asp"], "ad-psgd", {}),
        ([PS], "parameter-server", {"sync": "bsp", "servers": 1}),
        ([PS, "strategy.sync={kind: ssp, staleness: 2}"], "parameter-server", {"sync": "ssp", "staleness": 2}),
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
        ["strategy.sync.kind=sma"],
        ["strategy.sync={kind: local-sgd, every: 100, unit: samples}"],
        ["strategy.aggregation.library=gloo"],
        ["strategy.aggregation={kind: parameter-server, servers: 2}", "strategy.sync.kind=backup"],
        [PS, "strategy.overlap.kind=wfbp"],
    ],
)
def test_a_strategy_without_a_method_is_refused(sets):
    with pytest.raises(DpsimError, match="with a method for real computing"):
        method_of(load_scenario(SCENARIO, sets))


def test_what_disturbs_emulated_computing_does_not_disturb_real_one():
    with pytest.raises(DpsimError, match="disturbance must be left out with real computing, but got slow"):
        method_of(load_scenario(SCENARIO, ["disturbance.slow=[{workers: [0]}]"]))
