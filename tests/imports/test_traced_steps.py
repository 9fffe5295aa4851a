"""A trace tells a step and its exposed communication: exact times, known by construction."""

import json

import pytest
from kineto_traces import Recorder, write

from dpsim.base.errors import DpsimError
from dpsim.imports.kineto_ranks import read_traced_steps

US = 1e-6


def trace(rank=0, steps=3, late=0.0, period=1000.0, host=1000.0, sends=True):
    """In each step the GPU computes for 300 us and sends for 250 us, of which 100 us overlap.

    The rank begins to send ``late`` us later, and computes as much longer.
    """
    recorder = Recorder()
    for number in range(steps):
        # The host marks steps of its own length: it may run ahead of the GPU.
        begin, gpu = 1000 + host * number, 1000 + period * number
        recorder.event("user_annotation", f"ProfilerStep#{number + 3}", begin, host)
        forward = recorder.operator("aten::mm", begin + 10, 10)
        launches = len(recorder.events)
        recorder.kernel("gemm", gpu + 100, 300 + late, forward)
        if sends:
            call = recorder.operator("record_param_comms", begin + 30, 5)
            recorder.kernel("ncclDevKernel_AllReduce", gpu + 300 + late, 250 - late, call)
        for event in recorder.events[launches:]:
            if event["cat"] == "cuda_runtime":
                event["ts"] = begin + 15
    return {"traceEvents": recorder.events, "distributedInfo": {"rank": rank}}


def test_communication_beside_computing_is_not_exposed(tmp_path):
    found = read_traced_steps(write(tmp_path / "a.json", trace()))
    assert found.exposed == pytest.approx(150 * US)
    assert found.seconds == pytest.approx((1000 * US,) * 2)
    assert found.single


def test_a_step_is_the_gpus_where_the_host_runs_ahead(tmp_path):
    found = read_traced_steps(write(tmp_path / "a.json", trace(host=60.0)))
    assert found.seconds == pytest.approx((1000 * US,) * 2)
    assert found.exposed == pytest.approx(150 * US)


@pytest.mark.parametrize(("host", "step"), [(1000.0, 1000), (60.0, 450)])
def test_a_single_step_lasts_as_long_as_its_mark_but_no_less_than_its_kernels(tmp_path, host, step):
    found = read_traced_steps(write(tmp_path / "a.json", trace(steps=1, host=host)))
    assert found.seconds == pytest.approx((step * US,))


def test_of_all_ranks_the_one_that_waits_for_nobody_counts(tmp_path):
    for rank, late in enumerate((0.0, 80.0, 0.0)):
        write(tmp_path / f"{rank}.json", trace(rank, late=late))
    found = read_traced_steps(tmp_path)
    # Rank 1 computes until 480 us, and all send until 550 us.
    assert found.exposed == pytest.approx(70 * US)
    assert found.by_rank is None


def test_twenty_steps_of_all_ranks_tell_how_they_differ(tmp_path):
    for rank, late in enumerate((0.0, 80.0)):
        write(tmp_path / f"{rank}.json", trace(rank, steps=20, late=late))
    found = read_traced_steps(tmp_path, gpus_per_node=1)
    assert found.by_rank.times[:, 1] == pytest.approx([380 * US] * 20)
    assert (found.by_rank.ranks, found.by_rank.nodes) == ([0, 1], [0, 1])


def test_without_collective_kernels_communication_is_not_reported(tmp_path):
    assert read_traced_steps(write(tmp_path / "a.json", trace(sends=False))).exposed is None


@pytest.mark.parametrize(
    ("category", "message"),
    [
        ("kernel", "must have kernels of a GPU"),
        ("user_annotation", "must have marks of steps, but has none"),
    ],
)
def test_a_trace_that_tells_no_step_is_refused(tmp_path, category, message):
    found = trace()
    events = [event for event in found["traceEvents"] if event.get("cat") != category]
    path = write(tmp_path / "a.json", {**found, "traceEvents": events})
    with pytest.raises(DpsimError, match=rf"a\.json: {message}"):
        read_traced_steps(path)


def test_kernels_that_run_before_those_of_earlier_steps_are_refused(tmp_path):
    path = write(tmp_path / "a.json", trace(period=-500.0))
    with pytest.raises(DpsimError, match="steps must begin one after the other, but one begins 0"):
        read_traced_steps(path)


def test_a_row_of_dpsim_calibrate_names_its_trace(tmp_path, dpsim):
    (tmp_path / "mine.yaml").write_text(
        "name: mine\ncluster: {nodes: 2, node: dgx1-v100, gpus_per_node: 1}\n"
        "workload: {model: resnet18-cifar, batch_per_gpu: 4}\n"
    )
    logs = tmp_path / "logs"
    (logs / "traces").mkdir(parents=True)
    for rank, late in enumerate((0.0, 80.0)):
        write(logs / "traces" / f"{rank}.json", trace(rank, late=late))
    write(logs / "one.json", trace())
    (logs / "steps.csv").write_text(
        "workload.batch_per_gpu,trace,step_time_ms\n4,traces,\n8,one.json,\n16,one.json,0.9\n"
    )
    code, out, _ = dpsim("calibrate", tmp_path / "mine.yaml", logs, "--json")
    assert code == 0
    rows = json.loads(out)["rows"]
    assert [row["measured_ms"] for row in rows] == pytest.approx([1, 1, 0.9])
    assert [row["measured_exposed_ms"] for row in rows] == pytest.approx([0.07, 0.15, 0.15])
