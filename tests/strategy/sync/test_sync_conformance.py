"""What every way to synchronise keeps, by parametrisation over all kinds."""

import json
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from pydantic import ValidationError

from dpsim import simulate
from dpsim.scenario import shape_of
from dpsim.strategy import StrategyConfig
from dpsim.strategy.aggregation import Coordination
from dpsim.studies.replay import replay
from tools.combinations_page import kinds_of

KINDS = kinds_of("sync")
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
JITTER = {"jitter": {"kind": "lognormal", "sigma": 0.3}}


def sync(kind, **fields):
    return StrategyConfig.model_validate({"sync": {"kind": kind, **fields}}).sync


def accepted(aggregation, kind):
    """Whether the rules of combinations allow them."""
    try:
        StrategyConfig.model_validate({"aggregation": aggregation, "sync": {"kind": kind}})
    except ValidationError:
        return False
    return True


AGGREGATIONS = shape_of(StrategyConfig).below("aggregation").kinds()
PLACES = [
    (aggregation, kind)
    for aggregation, kind in product(AGGREGATIONS, KINDS)
    if accepted({"kind": aggregation}, kind)
]
EVERY_PLACE = pytest.mark.parametrize(("aggregation", "kind"), PLACES)


def without_copies(aggregation):
    """The aggregation by the way, if it has several, by which one worker sends nothing."""
    way = {"way": "single-process"} if aggregation == "host" else {}
    return {"kind": aggregation, **way}


SILENT_ALONE = [
    (aggregation, kind)
    for aggregation, kind in PLACES
    if AGGREGATIONS[aggregation].coordination is not Coordination.SERVERS
    and accepted(without_copies(aggregation), kind)
]


def independent_workers(kind):
    """With what a single worker needs to be let in."""
    return {"kind": kind, **({"backups": 0} if "backups" in type(sync(kind)).model_fields else {})}


def whole_periods(kind, least):
    """The steps of the fewest whole periods that are at least ``least`` steps."""
    period = sync(kind).period(samples_per_step=8, epoch=5)
    return -(-least // period) * period


@EVERY_KIND
def test_a_name_is_enough(kind):
    assert sync(kind).kind == kind


@EVERY_KIND
def test_somebody_but_never_more_than_all_are_waited_for(kind):
    assert all(1 <= sync(kind).gate(workers).quorum <= workers for workers in (2, 3, 17))


@EVERY_KIND
def test_every_step_has_its_meeting_and_some_step_in_each_period_has_one(kind):
    one = sync(kind)
    period = one.period(samples_per_step=8, epoch=5)
    assert period >= 1
    assert one.lag >= 0
    meetings = [one.exchanges(step, period) for step in range(3 * period)]
    assert set(meetings) <= {"gradients", "models", "nothing"}
    assert sum(meeting != "nothing" for meeting in meetings) >= 3


@EVERY_PLACE
def test_a_step_has_a_row_and_a_worker_a_column(tiny, aggregation, kind):
    # Others are rounded up to whole periods.
    steps = whole_periods(kind, 5)
    run = {"steps": steps, "warmup": 2}
    result = simulate(tiny(3, aggregation=aggregation, sync=kind, run=run, disturbance=JITTER))
    assert (
        result.steps.step.shape
        == result.steps.versions.shape
        == result.steps.clock_gap.shape
        == (steps, 3)
    )


@EVERY_PLACE
def test_a_slow_worker_never_makes_anything_faster(tiny, aggregation, kind):
    """Neither its own steps nor the throughput of all.

    Others that go their own way may profit, since it leaves the network to them.
    """
    slow = {"slow": [{"workers": [0], "factor": 2}]}
    even, uneven = (
        simulate(tiny(3, aggregation=aggregation, sync=kind, run={"steps": 9}, disturbance=each))
        for each in ({}, slow)
    )
    np.testing.assert_allclose(uneven.steps.compute, even.steps.compute * [2, 1, 1], rtol=1e-12)
    assert uneven.steps.step[:, 0].sum() > even.steps.step[:, 0].sum()
    if not even.independent_workers:
        assert uneven.throughput_samples_per_s < even.throughput_samples_per_s


@EVERY_PLACE
def test_workers_are_no_faster_than_as_many_single_workers(tiny, aggregation, kind):
    """But for shards, of which each of several workers updates one. Cards take next to no time."""
    one_server = {"servers": 1} if aggregation == "parameter-server" else {}
    meet = {"kind": aggregation, **one_server}
    nic = {"rate": "1 TB/s", "latency": 0}
    cluster = {"network": {"fabric": "single-switch", "nic": nic, "nics_per_node": 1}}
    one, *several = (
        simulate(tiny(workers, aggregation=meet, sync=independent_workers(kind), cluster=cluster))
        for workers in (1, 2, 4)
    )
    for combined in several:
        if aggregation == "sharded":
            assert combined.steps.compute.mean() < one.steps.compute.mean()
        else:
            most = combined.workers * one.throughput_samples_per_s
            assert combined.throughput_samples_per_s <= most * (1 + 1e-9)


@pytest.mark.parametrize(("aggregation", "kind"), SILENT_ALONE)
@pytest.mark.parametrize("overlap", ["sequential", "wfbp"])
def test_one_worker_costs_exactly_its_compute(tiny, aggregation, kind, overlap):
    """Without servers and without the copies to the host, of which the next tests are."""
    scenario = tiny(
        1,
        1e-3,
        aggregation=without_copies(aggregation),
        sync=independent_workers(kind),
        overlap=overlap,
    )
    steps = simulate(scenario).steps
    assert (steps.step == 10.5).all()
    assert (steps.compute == 10.5).all()
    assert not steps.versions.any()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if sync(kind).one_version])
@pytest.mark.parametrize(("colocated", "way"), [(True, 0.0), (False, 2.001)])
def test_one_worker_pushes_to_its_server_and_pulls(tiny, kind, colocated, way):
    """10 s of passes; 2 MB there, taken up at 1 MB/s, and back; the update is the server's.

    Beside the worker the way takes no time.
    """
    servers = {
        "kind": "parameter-server",
        "colocated": colocated,
        "servers": 1,
        "update_rate": "1 MB/s",
    }
    scenario = tiny(1, 1e-3, aggregation=servers, sync=independent_workers(kind))
    np.testing.assert_allclose(simulate(scenario).steps.step, 10 + way + 2 + way, rtol=1e-8)


def test_one_worker_copies_to_its_host_and_back(tiny):
    """2 MB over links that take no time, added up at 1 MB/s."""
    steps = simulate(tiny(1, aggregation={"kind": "host", "sum_rate": "1 MB/s"})).steps
    np.testing.assert_allclose(steps.step, 10.5 + 2, rtol=1e-8)


def test_the_same_seed_gives_the_same_steps_in_another_process(tiny):
    scenarios = [
        tiny(3, 1e-3, aggregation=aggregation, sync=kind, disturbance=JITTER)
        for aggregation, kind in PLACES
    ]
    code = (
        "import json, sys; from dpsim import simulate; from dpsim.scenario import Scenario;"
        "print(json.dumps([simulate(Scenario.model_validate(s)).steps.step.tolist() for s in "
        "json.load(sys.stdin)]))"
    )
    given = json.dumps([scenario.model_dump(mode="json") for scenario in scenarios])
    there = subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(there) == [simulate(scenario).steps.step.tolist() for scenario in scenarios]


@EVERY_PLACE
def test_it_trains_in_simulated_time(tiny, aggregation, kind):
    """`dpsim converge` runs it, to the end of a whole period."""
    scenario = tiny(3, aggregation=aggregation, sync=kind, disturbance=JITTER)
    steps = whole_periods(kind, 4)
    short = scenario.replay.model_copy(
        update={"model": "softmax", "batch": 4, "steps": steps, "points": 2}
    )
    result = replay(scenario.model_copy(update={"replay": short}))
    assert np.isfinite(result.parameters).all()
    assert result.curve.points[-1].loss < result.curve.points[0].loss


@EVERY_PLACE
def test_another_seed_gives_other_steps(tiny, aggregation, kind):
    one, other = (
        simulate(
            tiny(3, aggregation=aggregation, sync=kind, disturbance=JITTER, run={"seed": seed})
        ).steps
        for seed in (0, 1)
    )
    assert (one.compute != other.compute).all()
