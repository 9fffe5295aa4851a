"""Every way to meet, on two real ranks of this machine (four with servers), which are started once
for all that need as many.
"""

from importlib.util import find_spec

import numpy as np
import pytest
from again import from_known, measured_again

pytestmark = pytest.mark.torch

if find_spec("torch"):
    from dpsim.engine import simulate
    from dpsim.engine.kernel import slow_downs
    from dpsim.strategy.sync import DROPPED
    from validate.emulate import Case, run_cases
    from validate.ranks.launch import loopback

JITTER = "disturbance.jitter={kind: lognormal, sigma: 0.3}"
SLOW = "disturbance.slow=[{workers: [1], factor: 3}]"
PS = "strategy.aggregation.kind=parameter-server"
WAYS = {
    "ring": (JITTER,),
    "gloo": ("strategy.aggregation.library=gloo",),
    "buckets": ("strategy.overlap={kind: buckets, first_bucket: 1 kB, bucket_size: 1 kB}",),
    "priority": ("strategy.overlap={kind: priority, slice_size: 1 kB}",),
    "gathered": ("strategy.compression.kind=top-k", "strategy.overlap.kind=wfbp"),
    "low rank": ("strategy.compression.kind=powersgd",),
    "loss": ("strategy.average_loss=true",),
    "host": ("strategy.aggregation.kind=host",),
    "sharded": ("strategy.aggregation={kind: sharded, unit_size: 1 kB}",),
    "hybrid": ("strategy.aggregation={kind: sharded, unit_size: 1 kB, shard_group: 1}",),
    "ssp": ("strategy.sync={kind: ssp, staleness: 1}", SLOW),
    "backup": ("strategy.sync.kind=backup", SLOW),
    "asp": ("strategy.sync.kind=asp", SLOW),
    "local-sgd": ("strategy.sync={kind: local-sgd, every: 3, switch_after: 2}",),
    "diloco": (
        "strategy.sync={kind: local-sgd, group: 1, every: 1, outer: {every: 4, fragments: 2}}",
    ),
    "streaming": (
        "strategy.sync={kind: local-sgd, group: 1, every: 1, outer: {every: 2, overlap: 1}}",
    ),
    "sma": ("strategy.sync.kind=sma",),
    "gossip": ("strategy.aggregation.kind=gossip",),
    "ad-psgd": ("strategy.aggregation.kind=gossip", "strategy.sync.kind=asp", SLOW),
    "input": ("workload.input={kind: storage, cpu_seconds_per_sample: 4 ms, loader_workers: 1}",),
}
SERVED = {
    "bsp": (PS,),
    "bsp by layer": (PS, "strategy.overlap.kind=wfbp"),
    "ssp": (PS, "strategy.sync={kind: ssp, staleness: 1}", SLOW),
    "asp": (PS, "strategy.sync.kind=asp", SLOW),
    "backup": (PS, "strategy.sync.kind=backup", SLOW),
    "local-sgd": (PS, "strategy.sync={kind: local-sgd, every: 3}"),
}


class Measured(dict):
    """By name the case and its steps, all carried out by the same ranks."""

    def __init__(self, brief, ways, ranks):
        self._ranks = ranks
        self._cases = {name: Case(brief, sets) for name, sets in ways.items()}
        super().__init__(self._carried_out(*ways))

    def _carried_out(self, *names):
        cases = {name: self._cases[name] for name in names}
        found, failure = run_cases(list(cases.values()), loopback(self._ranks), timeout=120)
        assert failure is None
        return {
            name: (case, measured.steps)
            for (name, case), measured in zip(cases.items(), found, strict=True)
        }

    def check(self, name, check):
        """``check(case, steps)``; where other work held the ranks up, anew with ranks of its own."""

        def anew():
            return self._carried_out(name)[name]

        measured_again(lambda found: check(*found), from_known(self[name], anew))


@pytest.fixture(scope="module")
def met(brief):
    return Measured(brief, WAYS, 2)


@pytest.fixture(scope="module")
def served(brief):
    return Measured(brief, SERVED, 4)


def _check(case, steps):
    job = case.job()
    run = job.scenario.run
    planned = slow_downs(job) * job.positions[-1][job.kind_of]
    assert steps.step.shape == (run.warmup + run.steps, 2)
    assert (steps.compute.sum(axis=0) >= planned.sum(axis=0) - 0.001).all()
    assert (
        np.median(steps.compute, axis=0) >= np.median(planned, axis=0) - 0.003
    ).all()  # a late wait makes the next shorter
    for part in ("exposed_comm", "straggler_wait", "overlapped_comm", "encode", "input"):
        assert (getattr(steps, part) >= 0).all()


@pytest.mark.parametrize("name", WAYS)
def test_every_way_to_meet_runs_its_steps_and_computes_as_long_as_planned(met, name):
    met.check(name, _check)


@pytest.mark.parametrize("name", SERVED)
def test_servers_too(served, name):
    served.check(name, _check)


@pytest.mark.parametrize("name", ["ring", "gloo", "host", "gathered"])
def test_workers_in_step_read_the_newest_version(met, name):
    _, steps = met[name]
    assert not steps.versions.any()
    assert not steps.clock_gap.any()


def test_only_steps_that_meet_communicate(met):
    """Two steps of BSP, then models in every third step: 4 and 7 of 7."""

    def check(_, steps):
        waited = (steps.exposed_comm + steps.straggler_wait).max(axis=1)
        assert np.flatnonzero(waited > 0).tolist() == [0, 1, 4]

    met.check("local-sgd", check)


def test_fragments_are_waited_for_when_they_are_needed(met):
    """One after every second of 7 steps, at once, or where the step after the next begins."""
    for name, when in (("diloco", [1, 3, 5]), ("streaming", [3, 5])):
        waits = met[name][1].exposed_comm + met[name][1].straggler_wait
        assert set(np.flatnonzero(waits.max(axis=1) > 0).tolist()) <= {*when, 0}

    def check(_, steps):
        assert set(np.flatnonzero(steps.exposed_comm.max(axis=1) > 0)) == {1, 3, 5}

    met.check("diloco", check)


@pytest.mark.parametrize("where", ["met", "served"])
def test_bounds_of_staleness_hold(where, request):
    def check(_, steps):
        assert steps.clock_gap.max() == 1
        assert steps.straggler_wait[:, 0].sum() > 0.02  # the fast worker is held

    request.getfixturevalue(where).check("ssp", check)


@pytest.mark.parametrize("where", ["met", "served"])
def test_backup_workers_drop_the_slow_ones_gradients(where, request):
    def check(case, steps):
        assert (steps.versions[:, 1] == DROPPED).mean() > 0.5
        assert simulate(case.scenario()).counted[:, 1].mean() < 0.5

    request.getfixturevalue(where).check("backup", check)


def test_asynchronous_workers_run_ahead(served, met):
    def check(_, steps):
        assert steps.clock_gap[:, 0].max() >= 2
        assert steps.straggler_wait.max() < 0.02

    served.check("asp", check)
    met.check("ad-psgd", check)


def test_codecs_and_samples_cost_timed_waits(met):
    case, steps = met["gathered"]
    calls = case.job().calls(0)
    planned = sum(float(call.encode[0] + call.decode[0]) for call in calls)
    assert steps.encode == pytest.approx(planned)
    assert met["input"][1].input.sum() > 0
