"""Timelines of coordinated workers, worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from dpsim.engine.calls import StagedCall
from dpsim.engine.job import Exchange, Job
from dpsim.engine.preparation import prepare
from dpsim.engine.vector_engine import run_vector
from dpsim.network import CollectiveModel, Outcome
from dpsim.network.collective_models import CommonFinish
from dpsim.strategy.aggregation import AllReduceConfig, CollectiveCall
from dpsim.strategy.sync import BspConfig
from dpsim.workload import LayerTimes


class OneSecond(CollectiveModel):
    """Every collective ends one second after the last rank has entered."""

    network = SimpleNamespace(capacities=np.zeros(0))

    def _finish(self, starts, nbytes):
        return Outcome(np.full(len(starts), starts.max() + 1.0), np.zeros(0))


def job(plan, workers=2):
    """Two layers: forward 1 s and 2 s, backward 3 s (layer 0) and 4 s (layer 1), optimiser 0.5 s."""
    times = LayerTimes(np.array([1.0, 2.0]), np.array([3.0, 4.0]), 0.5)
    alike = np.zeros(workers, dtype=int)
    cluster = SimpleNamespace(ranks=workers, accelerator_of=alike, node_of=alike)
    strategy = SimpleNamespace(
        sync=BspConfig(kind="bsp"), aggregation=AllReduceConfig(kind="allreduce")
    )
    undisturbed = SimpleNamespace(links=())
    scenario = SimpleNamespace(strategy=strategy, disturbance=undisturbed, cell=1)
    model = SimpleNamespace(layers=[None, None])
    made = Job(scenario, cluster, model, (times,), {"all-reduce": (OneSecond(),)}, setting=None)
    nothing = np.zeros(1)
    calls = tuple(
        StagedCall(
            call.name, call.ready, call.needed, (("all-reduce", call.nbytes),), nothing, nothing
        )
        for call in plan
    )
    made.__dict__.update(
        period=1, counted=range(99), calls_of={Exchange("gradients"): calls}
    )  # as the overlap policy and the codec would have it
    return made


def run(plan, factors):
    factors = np.array(factors, dtype=float)
    return run_vector(job(plan, factors.shape[1]), factors, lambda done: None)


def test_backward_runs_from_the_last_layer_to_the_first():
    assert job(()).positions[:, 0].tolist() == [
        0.0,
        1.0,
        3.0,
        7.0,
        10.0,
        10.5,
    ]  # layer 1 is done at 3 + 4, layer 0 at 10


def test_one_operation_after_backward_is_exposed_whole():
    steps = run((CollectiveCall("all", 8, ready=4, needed=4),), [[1, 1]])
    assert steps.step.tolist() == [[11.5, 11.5]]  # 10 + 1 + 0.5
    assert steps.exposed_comm.tolist() == [[1.0, 1.0]]
    assert steps.overlapped_comm.tolist() == [[0.0, 0.0]]


def test_an_operation_that_is_ready_early_is_hidden():
    steps = run(
        (CollectiveCall("bucket0", 8, ready=3, needed=4),), [[1, 1]]
    )  # from 7 to 8, while layer 0 computes until 10
    assert steps.step.tolist() == [[10.5, 10.5]]
    assert steps.exposed_comm.tolist() == [[0.0, 0.0]]
    assert steps.overlapped_comm.tolist() == [[1.0, 1.0]]


def test_operations_wait_for_one_another():
    plan = tuple(
        CollectiveCall(f"bucket{i}", 8, ready=3, needed=4) for i in range(5)
    )  # 7 to 12: two seconds past the end of backward
    steps = run(plan, [[1, 1]])
    assert steps.exposed_comm.tolist() == [[2.0, 2.0]]
    assert steps.overlapped_comm.tolist() == [[3.0, 3.0]]


def test_a_layer_waits_for_what_its_forward_pass_needs():
    plan = (
        CollectiveCall("weights of layer 1", 8, ready=0, needed=1),
        CollectiveCall("all", 8, ready=4, needed=4),
    )
    steps = run(plan, [[1, 1]])  # from 0 to 1 beside layer 0, hidden; the second one is not
    assert steps.step.tolist() == [[11.5, 11.5]]
    late = run((CollectiveCall("weights of layer 0", 8, ready=0, needed=0), plan[1]), [[1, 1]])
    assert late.exposed_comm.tolist() == [[2.0, 2.0]]


def test_what_the_next_forward_pass_needs_is_awaited_in_the_next_step():
    plan = (
        CollectiveCall("layer 1", 8, ready=3, needed=6),
        CollectiveCall("layer 0", 8, ready=4, needed=5),
    )  # 5: before its layer 0
    steps = run(
        plan, [[1, 1], [1, 1]]
    )  # the second runs from 10 to 11; the next step starts at 10.5 and waits half a second
    assert steps.exposed_comm.tolist() == [[0.0, 0.0], [0.5, 0.5]]


def test_a_slow_worker_makes_the_others_wait():
    steps = run(
        (CollectiveCall("all", 8, ready=4, needed=4),), [[1, 2]]
    )  # backward ends at 10 and at 20; the sum is there at 21
    assert steps.straggler_wait.tolist() == [[10.0, 0.0]]
    assert steps.exposed_comm.tolist() == [[1.0, 1.0]]
    assert steps.compute.tolist() == [[10.5, 21.0]]
    assert steps.step.tolist() == [[21.5, 22.0]]


def test_the_next_step_starts_when_each_worker_is_ready():
    steps = run(
        (CollectiveCall("all", 8, ready=4, needed=4),), [[1, 2], [1, 1]]
    )  # worker 1 ends step 0 half a second after worker 0
    assert steps.straggler_wait[1].tolist() == [0.5, 0.0]


def test_one_worker_costs_exactly_its_compute(scenario):
    single = scenario(cluster={"nodes": 1, "node": "single-gpu"})
    prepared = prepare(single)
    steps = run_vector(prepared, np.ones((1, 1)), lambda done: None)
    assert prepared.calls(0) == ()
    assert steps.step[0, 0] == pytest.approx(prepared.times[0].step, rel=1e-15)


def test_slices_of_a_gradient_are_taken_in_one_go_to_the_same_times(scenario, monkeypatch):
    sliced = prepare(
        scenario(
            strategy={
                "aggregation": {"kind": "allreduce", "library": "nccl"},
                "overlap": {"kind": "priority", "slice_size": "100 kB"},
            }
        )
    )
    factors = 1 + np.random.default_rng(0).random((3, sliced.workers))
    requested = []
    finish = CommonFinish._finish

    def counted(model, starts, nbytes):
        requested.append(nbytes)
        return finish(model, starts, nbytes)

    monkeypatch.setattr(CommonFinish, "_finish", counted)
    in_a_row = run_vector(sliced, factors, lambda done: None)
    rows = len(requested)
    monkeypatch.setattr(CommonFinish, "end_from_common_start", lambda model, begin, nbytes: None)
    one_by_one = run_vector(sliced, factors, lambda done: None)
    assert rows < (len(requested) - rows) / 5
    assert in_a_row.step.tolist() == one_by_one.step.tolist()
    assert in_a_row.overlapped_comm.tolist() == one_by_one.overlapped_comm.tolist()


def test_a_longer_run_of_a_job_plans_no_step_again(scenario):
    job = prepare(scenario())
    longer = job.scenario.model_copy(
        update={"run": job.scenario.run.model_copy(update={"warmup": 40})}
    )
    assert job.for_scenario(longer).calls(0) is job.calls(0)
