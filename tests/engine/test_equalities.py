"""Strategies that are one and the same take the same time, exactly: each equality in its domain."""

from dataclasses import replace

import numpy as np
import pytest

from dpsim import load_scenario, simulate
from dpsim.engine import run_scenario
from dpsim.engine.preparation import prepare
from dpsim.engine.steps import Steps
from dpsim.engine.vector_engine import run_vector
from dpsim.strategy.sync import SspConfig, StalenessGate

SERVERS = "parameter-server"
EVERY_STEP = {"kind": "local-sgd", "every": 1}
JITTER = {"jitter": {"kind": "gamma", "cv": 0.5}}
SLOW = {"slow": [{"workers": [1], "factor": 3}]}
DISTURBANCES = pytest.mark.parametrize(
    "disturbance", [{}, JITTER, SLOW], ids=["even", "jitter", "slow"]
)
PLACES = pytest.mark.parametrize(
    "servers",
    [
        {},
        {"servers": 2},
        {"colocated": False, "servers": 3, "update_rate": "5 MB/s"},
        {"servers": 3, "replicas": 2},
    ],
    ids=["one-a-node", "two", "on-their-own-nodes", "replicas"],
)


def steps(scenario):
    """The requested ones: a bound that is never reached would need warm-up, and none would not."""
    return run_scenario(scenario, settle=False).steps


def assert_same_books(one, other):
    """Each step of each worker has the same parts and the same staleness."""
    found, expected = steps(one), steps(other)
    for part in Steps.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))


class ApartConfig(SspConfig):
    """SSP(0) whose workers push and pull on their own all the same."""

    def gate(self, workers):
        return StalenessGate(workers, 0)


@pytest.mark.pairwise
@DISTURBANCES
@PLACES
@pytest.mark.parametrize("overlap", ["sequential", "wfbp", "mg-wfbp", "buckets"])
@pytest.mark.parametrize(
    "sync",
    [{"kind": "ssp", "staleness": 0}, {"kind": "backup", "backups": 0}],
    ids=["ssp", "backup"],
)
def test_ssp_of_0_and_no_backups_are_bsp_at_a_parameter_server(
    tiny, sync, overlap, servers, disturbance
):
    both = {
        "aggregation": {"kind": SERVERS, **servers},
        "overlap": overlap,
        "disturbance": disturbance,
    }
    assert_same_books(tiny(4, 1e-3, sync=sync, **both), tiny(4, 1e-3, sync="bsp", **both))


@pytest.mark.parametrize("sync", ["{kind: ssp, staleness: 0}", "{kind: backup, backups: 0}"])
def test_ssp_of_0_and_no_backups_answer_as_bsp_does(sync):
    """Also how long training takes to its target, which is known only of synchronous training."""
    file = "scenarios/parameter-server.yaml"
    answers = [
        simulate(load_scenario(file, sets)).to_json() | {"provenance": None}
        for sets in ([f"strategy.sync={sync}"], [])
    ]
    assert answers[0] == answers[1]
    assert answers[0]["to_target"]["time_s"] > 0


@DISTURBANCES
@pytest.mark.parametrize("compression", ["none", "cast", "top-k", "powersgd"])
def test_ssp_of_0_is_bsp_at_a_parameter_server_with_a_codec(tiny, compression, disturbance):
    both = {"aggregation": SERVERS, "compression": compression, "disturbance": disturbance}
    assert_same_books(
        tiny(3, sync={"kind": "ssp", "staleness": 0}, **both), tiny(3, sync="bsp", **both)
    )


def apart(scenario):
    """``scenario`` under SSP(0) by workers that push and pull on their own."""
    sync = ApartConfig(kind="ssp", staleness=0)
    strategy = scenario.strategy.model_copy(update={"sync": sync})
    single = scenario.model_copy(update={"strategy": strategy})
    assert run_scenario(single, settle=False).job.independent_workers
    return single


@pytest.mark.pairwise
@DISTURBANCES
@PLACES
def test_workers_apart_that_wait_for_all_and_send_once_take_the_time_of_bsp(
    tiny, servers, disturbance
):
    """Two engines. With one message a step there is nothing that one sends earlier than the other;
    they tell the parts apart differently.
    """
    bsp = tiny(4, 1e-3, aggregation={"kind": SERVERS, **servers}, disturbance=disturbance)
    np.testing.assert_allclose(steps(apart(bsp)).step, steps(bsp).step, rtol=1e-12)


def test_independent_workers_wait_after_their_push_and_coordinated_ones_before_it(tiny):
    """Three push 2 MB to a server of 1 MB/s, at 10, 10 and 14 s: two until 14 s, one until 16 s.

    An independent worker communicates until its push is applied, and waits from then on: 4 s and
    2 s. A coordinated one waits until the last has come, and communicates from then on: 4 s and 2 s
    the other way round. All pull until 22 s.
    """
    servers = {"kind": SERVERS, "servers": 1, "colocated": False, "update_rate": "1 PB/s"}
    slow = {"slow": [{"workers": [2], "factor": 1.4}]}
    coordinated = tiny(3, aggregation=servers, disturbance=slow, run={"steps": 1})
    independent = apart(coordinated)
    for scenario, pushed, waited in ((independent, 4, 2), (coordinated, 2, 4)):
        found = steps(scenario)
        np.testing.assert_allclose(found.step, 22, rtol=1e-6)
        np.testing.assert_allclose(found.exposed_comm, [[pushed + 6, pushed + 6, 8]], rtol=1e-6)
        np.testing.assert_allclose(found.straggler_wait, [[waited, waited, 0]], atol=1e-5)


@DISTURBANCES
@pytest.mark.parametrize("overlap", ["sequential", "wfbp", "mg-wfbp", "buckets"])
def test_a_staleness_without_end_is_asp_at_a_parameter_server(tiny, overlap, disturbance):
    both = {"aggregation": SERVERS, "overlap": overlap, "disturbance": disturbance}
    ssp, asp = (
        steps(tiny(3, sync=sync, **both)) for sync in ({"kind": "ssp", "staleness": 10_000}, "asp")
    )
    for part in ("step", "straggler_wait", "versions", "clock_gap"):
        np.testing.assert_array_equal(getattr(ssp, part), getattr(asp, part))


@DISTURBANCES
def test_with_a_staleness_without_end_an_all_reduce_holds_nobody_up(tiny, disturbance):
    ssp = steps(tiny(3, sync={"kind": "ssp", "staleness": 10_000}, disturbance=disturbance))
    np.testing.assert_array_equal(ssp.step, ssp.compute)


@pytest.mark.pairwise
@DISTURBANCES
@pytest.mark.parametrize("overlap", ["sequential", "wfbp", "mg-wfbp", "buckets", "priority"])
@pytest.mark.parametrize(
    "sync",
    [{"kind": "ssp", "staleness": 0}, {"kind": "backup", "backups": 0}],
    ids=["ssp", "backup"],
)
def test_ssp_of_0_and_no_backups_are_bsp_with_an_all_reduce(tiny, sync, overlap, disturbance):
    one, other = (
        steps(tiny(4, 1e-3, sync=kind, overlap=overlap, disturbance=disturbance))
        for kind in (sync, "bsp")
    )
    for part in (
        "compute",
        "exposed_comm",
        "straggler_wait",
        "overlapped_comm",
        "clock_gap",
        "versions",
    ):
        np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


@pytest.mark.parametrize("aggregation", ["allreduce", "host"])
def test_averaging_models_after_every_step_is_bsp_in_time(tiny, aggregation):
    local, bsp = (tiny(4, 1e-3, aggregation=aggregation, sync=sync) for sync in (EVERY_STEP, "bsp"))
    np.testing.assert_allclose(steps(local).step, steps(bsp).step, rtol=1e-12)


@pytest.mark.parametrize("aggregation", ["allreduce", "host"])
def test_averaging_models_after_every_step_is_bsp_for_uneven_workers_whose_update_takes_no_time(
    tiny, aggregation
):
    """It comes before the averaging of models and after that of gradients, so that workers would
    enter further apart.
    """
    factors = np.random.default_rng(0).uniform(0.5, 2, (6, 4))

    def run(sync):
        job = prepare(tiny(4, 1e-3, aggregation=aggregation, sync=sync))
        instant = replace(job, times=tuple(replace(times, optimizer=0.0) for times in job.times))
        return run_vector(instant, factors, lambda done: None)

    np.testing.assert_allclose(run(EVERY_STEP).step, run("bsp").step, rtol=1e-12)


def test_a_switch_that_never_comes_is_bsp(tiny):
    late = {"kind": "local-sgd", "every": 4, "switch_after": 100}
    np.testing.assert_array_equal(
        steps(tiny(3, sync=late, disturbance=JITTER)).step, steps(tiny(3, disturbance=JITTER)).step
    )


@pytest.mark.parametrize(
    "unit",
    [{"every": 2}, {"every": 48, "unit": "samples"}, {"every": 1, "unit": "epochs"}],
    ids=str,
)
def test_the_period_of_averaging_in_steps_samples_and_epochs(tiny, unit):
    """24 samples a step of 3 workers; an epoch of 48 samples is 2 steps."""
    scenario = tiny(
        3,
        sync={"kind": "local-sgd", **unit},
        workload={"dataset": {"samples": 48}},
        run={"steps": 4},
    )
    assert (steps(scenario).exposed_comm > 1).tolist() == [[False] * 3, [True] * 3] * 2


@DISTURBANCES
@pytest.mark.parametrize("graph", ["ring", "exponential", "random-pairs", "torus"])
def test_gossip_of_two_workers_is_an_exchange_of_a_pair(tiny, graph, disturbance):
    """2 MB each way at once, 2 s, and its latency; nobody else is there.

    The same as an all-to-all between the two.
    """
    gossip = steps(
        tiny(2, 1e-3, aggregation={"kind": "gossip", "graph": graph}, disturbance=disturbance)
    )
    pair = steps(
        tiny(
            2,
            1e-3,
            aggregation={"kind": "allreduce", "algorithm": "all-to-all"},
            disturbance=disturbance,
        )
    )
    np.testing.assert_allclose(gossip.step, pair.step, rtol=1e-12)
    assert gossip.exposed_comm.min() == pytest.approx(2.001, rel=1e-8)


@pytest.mark.parametrize("workers", [2, 3, 5, 8])
@pytest.mark.parametrize("stage", [1, 2])
def test_a_sharded_step_is_its_formula(tiny, workers, stage):
    """Weights gathered before the step, gradients scattered after it, m - 1 rounds of S / m each; 1
    / m of the update.
    """
    step = steps(tiny(workers, 1e-3, aggregation={"kind": "sharded", "stage": stage})).step
    rounds = 2 * (workers - 1) * (1e-3 + 2 / workers)
    np.testing.assert_allclose(
        step, 10 + 0.5 / workers + rounds, rtol=1e-5
    )  # 2 MB do not divide by m: chunks of whole elements


@pytest.mark.parametrize("workers", [2, 3, 5, 8])
def test_a_fully_sharded_step_is_its_formula(tiny, workers):
    """Two units of a layer.

    Both gathered on the way forward and again on the way back; then gradients scattered.
    """
    scenario = tiny(workers, 1e-3, aggregation={"kind": "sharded", "stage": 3, "unit_size": "1 MB"})
    each = (workers - 1) * (1e-3 + 1 / workers)
    np.testing.assert_allclose(
        steps(scenario).step,
        10 + 0.5 / workers + 4 * each + (workers - 1) * (1e-3 + 2 / workers),
        rtol=1e-5,
    )


def test_an_early_gather_hides_behind_the_layer_before(tiny):
    """With 4 workers a unit takes 0.75 s, less than any layer.

    Only the first gather and the last scatter are not hidden.
    """
    sharded = {"kind": "sharded", "stage": 3, "unit_size": "1 MB", "prefetch": 1}
    np.testing.assert_allclose(
        steps(tiny(4, aggregation=sharded, overlap="wfbp")).exposed_comm, 0.75 + 0.75, rtol=1e-6
    )


def test_a_late_gather_is_waited_for(tiny):
    """Without prefetching each unit is gathered where it is needed, the last one behind the
    scatter of the layer just done.
    """
    sharded = {"kind": "sharded", "stage": 3, "unit_size": "1 MB", "prefetch": 0}
    np.testing.assert_allclose(
        steps(tiny(4, aggregation=sharded, overlap="wfbp")).exposed_comm, 6 * 0.75, rtol=1e-6
    )
