"""Input, data set and learners in a whole scenario."""

from pathlib import Path

import numpy as np
import pytest

from dpsim import DpsimError, load_scenario, simulate
from dpsim.engine.preparation import prepare
from dpsim.topology import host_copy_rates
from dpsim.workload import Layer, MeasuredTimes, Model, ModelProfile

QUICKSTART = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"
STORAGE = "workload.input={{kind: storage, bandwidth: {bandwidth}, shared: {shared}, loader_workers: 16, cpu_seconds_per_sample: {cpu}}}"


def quickstart(*overrides):
    return load_scenario(
        QUICKSTART, ["run.steps=6", "run.warmup=40", "disturbance.jitter=null", *overrides]
    )


def storage(bandwidth="100 GB/s", shared="node", cpu="1 ms"):
    return STORAGE.format(bandwidth=bandwidth, shared=shared, cpu=cpu)


def test_input_from_fast_storage_costs_nothing():
    fast, none = simulate(quickstart(storage())), simulate(quickstart())
    assert fast.step_time_s["mean"] == pytest.approx(none.step_time_s["mean"], rel=1e-12)
    assert fast.parts_s["input"] == 0
    assert not fast.input_bound


@pytest.mark.parametrize(("shared", "gpus"), [("node", 8), ("cluster", 32)])
def test_slow_storage_sets_the_step_and_the_parts_add_up(shared, gpus):
    """64 samples of 110 kB for each of the GPUs that share 100 MB/s."""
    result = simulate(quickstart(storage("100 MB/s", shared)))
    assert result.input_bound
    assert result.step_time_s["mean"] == pytest.approx(gpus * 64 * 110e3 / 100e6, rel=1e-9)
    assert result.parts_s["input"] > 0
    steps = result.steps
    np.testing.assert_allclose(
        steps.compute + steps.input + steps.exposed_comm + steps.straggler_wait,
        steps.step,
        rtol=1e-12,
    )
    assert sum(result.parts_s.values()) == pytest.approx(result.step_time_s["mean"], rel=1e-12)


def test_slow_decoding_is_named():
    answer = simulate(quickstart(storage(cpu="100 ms"))).to_json()
    assert answer["input_bound"] is True
    assert answer["input"] == {
        "slowest_stage": "decoding",
        "most_samples_per_s_per_gpu": pytest.approx(160),
    }


@pytest.mark.parametrize("steps", [1, 5, 20])
@pytest.mark.parametrize("prefetch", ["prefetch: 3", ""])
def test_few_steps_wait_for_slow_input_as_long_as_many_do(steps, prefetch):
    """Loaders bring eight batches at once, or as many as are ahead: no step between waits."""
    slow = f"workload.input={{kind: storage, bandwidth: 100 GB/s, cpu_seconds_per_sample: 100 ms, {prefetch}}}"
    result = simulate(quickstart(slow, f"run.steps={steps}", "run.warmup=1"))
    answer = result.to_json()
    assert result.input_bound
    most = answer["input"]["most_samples_per_s_per_gpu"] * result.workers
    assert result.throughput_samples_per_s == pytest.approx(most, rel=1e-6)
    assert any("batches come" in note for note in answer["notes"])


def test_the_first_step_waits_for_the_whole_pipeline():
    job = prepare(quickstart(storage()))
    cold = simulate(quickstart(storage(), "run.warmup=0"))
    latency = job.input.read + job.input.decode + job.input.copy
    np.testing.assert_allclose(cold.steps.input[0], latency, rtol=1e-12)
    assert (cold.steps.input[1:] == 0).all()


def test_gpus_behind_one_pcie_switch_share_its_link_to_the_cpu():
    eight, one = (
        prepare(quickstart("cluster.nodes=1", f"cluster.gpus_per_node={gpus}")).cluster
        for gpus in (8, 1)
    )
    single = host_copy_rates(one)[0]
    assert host_copy_rates(eight).tolist() == pytest.approx([single / 2] * 8)


def test_an_epoch_takes_its_steps_and_counts_by_policy():
    answers = {
        last: simulate(
            quickstart(f"workload.dataset={{samples: 1281167, last_batch: {last}}}")
        ).to_json()
        for last in ("drop", "pad")
    }
    combined = 32 * 64
    epoch = answers["drop"]["epoch"]
    assert epoch == {
        "steps": 625,
        "distinct": 625 * combined,
        "repeated": 0,
        "dropped": 1281167 - 625 * combined,
        "time_s": pytest.approx(625 * answers["drop"]["step_time_s"]["mean"]),
    }
    assert answers["pad"]["epoch"]["repeated"] == 626 * combined - 1281167


def test_learners_share_a_gpu_and_their_samples_count():
    one = simulate(quickstart("workload.batch_per_gpu=4"))
    four = simulate(quickstart("workload.batch_per_gpu=4", "workload.learners_per_gpu=4"))
    assert four.batch_per_worker == 16
    assert one.steps.compute.mean() < four.steps.compute.mean() < 4 * one.steps.compute.mean()
    assert four.memory.held.activations == 4 * one.memory.held.activations
    assert one.to_json()["learners"] == []
    rows = four.to_json()["learners"]
    assert [row["batch"] for row in rows] == [1, 2, 4]
    assert [row["best"] for row in rows] == sorted((row["best"] for row in rows), reverse=True)
    assert all(row["samples_per_s_best"] >= row["samples_per_s_alone"] for row in rows)


def test_accumulated_passes_count_in_the_epoch_and_in_throughput():
    twice = simulate(
        quickstart("workload.gradient_accumulation=2", "workload.dataset.samples=1281167")
    )
    assert twice.batch_per_worker == 128
    assert twice.epoch.steps == 1281167 // (32 * 128)


def test_passes_take_what_the_measured_curve_says():
    """The curve of scenarios/sma.yaml: with 16 samples 200 a second, with 32 in flight 280."""

    def times(*overrides):
        return prepare(load_scenario("scenarios/sma.yaml", overrides)).times[0]

    one, both = times("workload.learners_per_gpu=1"), times()
    assert one.one_pass == pytest.approx(16 / 200)
    assert both.one_pass == pytest.approx(32 / 280)
    np.testing.assert_allclose(both.forward / one.forward, (32 / 280) / (16 / 200))
    # What is computed again was not measured, and comes on top: about a third of it.
    again = times("workload.checkpoint=full").one_pass / (32 / 280)
    assert 1.2 < again < 4 / 3
    assert again == pytest.approx(
        times("workload.learners_per_gpu=1", "workload.checkpoint=full").one_pass / (16 / 200)
    )


def test_learners_updates_share_the_memory_beside_a_measured_curve():
    curve = "workload.utilisation=[{batch: 4, samples_per_s: 100}]"
    single = prepare(quickstart("workload.batch_per_gpu=4", curve)).times[0]
    both = prepare(
        quickstart("workload.batch_per_gpu=4", "workload.learners_per_gpu=2", curve)
    ).times[0]
    np.testing.assert_allclose(both.forward, 2 * single.forward)
    assert single.optimizer <= both.optimizer < 2 * single.optimizer


def test_a_curve_is_of_one_kind_of_gpu():
    curve = "workload.utilisation=[{batch: 4, samples_per_s: 100}]"
    groups = "cluster={groups: [{node: dgx-a100}, {node: dgx1-v100}]}"
    with pytest.raises(DpsimError, match="on several kinds of GPU, since it is measured on one"):
        quickstart(groups, curve)


def test_a_model_that_takes_no_time_is_refused(tiny, tmp_path):
    """It has no pace."""
    times = MeasuredTimes(batch_sizes=(8,), forward_s=((0.0,),), backward_s=((0.0,),))
    model = Model("still", (Layer("a", "linear", (1,)),), "sample", times)
    path = tmp_path / "still.json"
    path.write_text(ModelProfile.of(model, {}).to_json())
    with pytest.raises(DpsimError, match="must take at least 1e-18 s to compute, but takes 0 s"):
        simulate(tiny(workload={"model": {"profile": str(path)}}))
