import csv
import gzip
import json
import re

import pytest
from imported import DATA
from json_docs import documented_keys
from kineto_traces import GRADIENTS, gpu_trace, write

from dpsim.base.errors import DpsimError
from dpsim.imports.kineto import profile_kineto
from dpsim.imports.kineto_events import Event, innermost, nest
from dpsim.imports.kineto_steps import StepTimes, traced_step
from dpsim.workload import MeasuredTimes

US = 1e-6


@pytest.fixture
def profile(tmp_path):
    return lambda trace, **options: profile_kineto(
        write(tmp_path / "job.pt.trace.json", trace), **options
    )


def test_layers_have_their_kernels_forward_and_backward(profile):
    found = profile(gpu_trace())
    times = found.measured
    assert [layer.name for layer in found.layers] == [
        "conv2d.0",
        "linear.0",
        "cross_entropy_loss.0",
    ]
    assert times.batch_sizes == (4,)
    assert times.forward_s[0] == pytest.approx(
        [60 * US, 10 * US, 2 * US]
    )  # the mean of 50 and 70 us
    assert times.backward_s[0] == pytest.approx([90 * US, 20 * US, 3 * US])
    assert times.optimizer_s == pytest.approx([7 * US])
    assert times.device == "NVIDIA H100 80GB HBM3"


def test_the_parts_of_a_traced_step_add_up(profile):
    """Of 1,000 us, conv2d takes 60 forward and 90 backward; of the all-reduce 60 are exposed."""
    found = profile(gpu_trace()).traced
    assert [layer.name for layer in found.longest] == [
        "conv2d.0",
        "linear.0",
        "cross_entropy_loss.0",
    ]
    assert found.longest[0].model_dump() == pytest.approx(
        {"name": "conv2d.0", "forward_s": 60 * US, "backward_s": 90 * US, "share": 0.15}
    )
    parts = (found.optimizer_s, found.no_layer_s, found.exposed_s, found.idle_s)
    assert parts == pytest.approx((7 * US, 0, 60 * US, 748 * US))
    whole = sum(layer.forward_s + layer.backward_s for layer in found.longest) + sum(parts)
    assert whole == pytest.approx(found.step_s) == pytest.approx(1000 * US)


def test_ten_layers_are_listed_and_the_others_added_up():
    measured = MeasuredTimes(
        batch_sizes=(1,), forward_s=(tuple(range(12)),), backward_s=((0,) * 12,), optimizer_s=(3,)
    )
    step = StepTimes(0.0, 0.0, 70.0, 10.0, 20.0, 20.0)
    found = traced_step([step], [f"h.{number}" for number in range(12)], measured, 1.0)
    assert [layer.name for layer in found.longest] == [f"h.{number}" for number in range(11, 1, -1)]
    assert (found.other_layers_s, found.step_s) == (1.0, 100.0)


def test_the_measured_steps_are_kept_one_by_one(profile):
    """The convolution takes 50 us in one step, and 70 in the other."""
    assert profile(gpu_trace()).measured.steps_s == pytest.approx((182 * US, 202 * US))


def test_as_csv_a_profile_has_a_row_for_each_layer(dpsim, tmp_path):
    code, out, _ = dpsim("import", "kineto", write(tmp_path / "job.json", gpu_trace()), "--csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert (code, [row["name"] for row in rows]) == (
        0,
        ["conv2d.0", "linear.0", "cross_entropy_loss.0"],
    )
    assert [row["layer_kind"] for row in rows] == ["conv", "linear", "elementwise"]
    assert float(rows[0]["backward_s at batch 4"]) == pytest.approx(90 * US)


def test_gradients_are_ready_when_their_last_kernel_ends(profile):
    # Backward begins at 210 us; the linear layer's kernels end at 252, the convolution's at 360.
    assert profile(gpu_trace()).measured.gradient_ready_s[0] == pytest.approx(
        [150 * US, 42 * US, 3 * US]
    )


def test_shapes_tell_parameters_and_flop_per_sample(profile):
    conv, linear, loss = profile(gpu_trace()).layers
    assert (conv.kind, conv.parameters, conv.forward_flop) == ("conv", (216, 8), 2 * 216 * 32 * 32)
    assert conv.backward_flop == conv.forward_flop  # the first layer has no gradient by its input
    assert (linear.kind, linear.parameters, linear.forward_flop, linear.backward_flop) == (
        "linear",
        (80, 10),
        160,
        320,
    )
    assert (loss.kind, loss.parameters) == ("elementwise", ())


@pytest.mark.parametrize("nccl_says", [True, False])
def test_nccl_calls_have_sizes_and_times(profile, nccl_says):
    (call,) = profile(gpu_trace(nccl_says=nccl_says)).collectives
    assert (call.operation, call.payload_bytes, call.ranks) == ("allreduce", 4 * GRADIENTS, 8)
    assert (call.start_s, call.duration_s) == pytest.approx((160 * US, 60 * US))


@pytest.mark.parametrize("place", ["around the launch", "by its id", "around the kernel"])
def test_the_size_of_a_call_may_be_only_in_its_annotation(profile, place):
    """As torch writes it: nccl:all_reduce with the shapes of the tensors that it sends."""
    trace = gpu_trace()
    marks = []
    for event in trace["traceEvents"]:
        if event["name"] == "record_param_comms":
            event["args"] = {"External id": event["args"]["External id"]}
        if event["name"].startswith("ncclDevKernel"):
            shapes = {"Input Dims": [[GRADIENTS]], "Input type": ["c10::BFloat16"]}
            mark = {"ph": "X", "cat": "user_annotation", "name": "nccl:all_reduce", "args": shapes}
            event["args"] = {"correlation": event["args"]["correlation"]}
            if place == "around the launch":
                mark |= {"tid": 1, "ts": event["ts"] - 10, "dur": 9}
            elif place == "by its id":
                event["args"]["External id"] = 10_000 + int(event["ts"])
                shapes["External id"] = 10_000 + int(event["ts"])
                mark |= {"tid": 5, "ts": 0, "dur": 1}
            else:
                mark |= {"cat": "gpu_user_annotation", "tid": 7, "ts": event["ts"], "dur": 60}
            marks.append(mark)
    trace["traceEvents"] += marks
    (call,) = profile(trace).collectives
    assert (call.operation, call.payload_bytes) == ("all_reduce", 2 * GRADIENTS)


def test_calls_of_unknown_size_are_reported(profile):
    trace = gpu_trace()
    for event in trace["traceEvents"]:
        event.get("args", {}).pop("In msg nelems", None)
    found = profile(trace)
    assert [call.payload_bytes for call in found.collectives] == [0]
    assert any(
        note.startswith("ignored: the sizes of 1 of 1 collective calls") for note in found.notes
    )


def test_kernels_of_no_layer_are_reported_with_their_time(profile):
    trace = gpu_trace()
    for event in trace["traceEvents"]:
        if event["name"] == "softmax_warp_forward":  # 2 us in each of two steps
            event["args"] = {}
    notes = profile(trace).notes
    assert any(note.startswith("ignored: 2e-06 s a step of kernels") for note in notes)


def test_a_profile_without_parameters_is_only_for_one_worker(dpsim, tmp_path):
    trace = write(tmp_path / "job.json", stripped(gpu_trace()))
    code, _, err = dpsim("import", "kineto", trace, "--batch", 4, "-o", tmp_path / "p.json")
    assert code == 0
    assert "ignored: parameters, since the trace has no shapes" in err
    model = "workload: {model: {profile: p.json}, batch_per_gpu: 4}"
    (tmp_path / "s.yaml").write_text(
        f"name: own\ncluster: {{nodes: 2, node: dgx1-v100}}\n{model}\n"
    )
    code, out, err = dpsim("run", tmp_path / "s.yaml")
    assert (code, out) == (2, "")
    assert "workload.model: must have parameters, whose gradients workers exchange, but job" in err
    one = ("--set", "cluster.nodes=1", "--set", "cluster.gpus_per_node=1")
    assert dpsim("run", tmp_path / "s.yaml", *one)[0] == 0


@pytest.mark.parametrize(("output", "width"), [("float", 4), ("c10::BFloat16", 2), ("double", 8)])
def test_gloo_s_calls_have_sizes_and_times(profile, output, width):
    trace = gpu_trace()
    for event in trace["traceEvents"]:
        if event["name"].startswith("ncclDevKernel"):
            event |= {"cat": "user_annotation", "name": "gloo:all_reduce", "pid": 1, "tid": 9}
            event["args"] = {"Input Dims": [[GRADIENTS // 2, 2]], "Input type": [output]}
    (call,) = profile(trace).collectives
    assert (call.operation, call.payload_bytes, call.ranks) == (
        "all_reduce",
        width * GRADIENTS,
        None,
    )
    assert (call.start_s, call.duration_s) == pytest.approx((160 * US, 60 * US))


def test_kernels_without_an_operator_s_id_are_found_by_their_launch(profile):
    trace = gpu_trace()
    for event in trace["traceEvents"]:
        if event.get("cat") == "kernel" and "nccl" not in event["name"]:
            del event["args"]["External id"]
    # The launches are where their operators are: on the CPU, before the kernels.
    starts = {
        event["args"]["External id"]: event
        for event in trace["traceEvents"]
        if event.get("cat") == "cpu_op"
    }
    for event in trace["traceEvents"]:
        if event.get("cat") == "cuda_runtime":
            operator = starts[event["args"]["External id"]]
            event |= {"ts": operator["ts"] + 1, "dur": 1, "tid": operator["tid"]}
    assert profile(trace).measured.backward_s[0] == pytest.approx([90 * US, 20 * US, 3 * US])


def test_modules_are_layers_where_the_trace_has_them(profile):
    trace = gpu_trace()
    for start in (10_000, 20_000):
        for name, at, duration in (("Net_0", 5, 80), ("Conv2d_0", 8, 24), ("Linear_0", 38, 24)):
            event = {
                "ph": "X",
                "cat": "python_function",
                "name": f"nn.Module: {name}",
                "tid": 1,
                "ts": start + at,
                "dur": duration,
            }
            trace["traceEvents"].append(event)
    assert [layer.name for layer in profile(trace).layers] == ["Conv2d_0", "Linear_0", "Net_0"]


def test_without_step_marks_the_trace_is_one_step_and_says_so(profile):
    trace = gpu_trace()
    assert not any("no marks of steps" in note for note in profile(trace).notes)
    trace["traceEvents"] = [
        event for event in trace["traceEvents"] if not event["name"].startswith("ProfilerStep")
    ]
    found = profile(trace)
    assert len(found.layers) == 6
    assert sum(found.measured.forward_s[0]) == pytest.approx(144 * US)
    assert any(
        "no marks of steps in the trace, so all of it counts as one step" in note
        for note in found.notes
    )


def test_an_outlying_step_is_left_out_and_reported(profile):
    trace = gpu_trace()
    for start in (30_000, 40_000):
        copies = [
            dict(event)
            for event in trace["traceEvents"]
            if 10_000 <= event["ts"] < 11_000 and event["ph"] == "X"
        ]
        for event in copies:
            event |= {"ts": event["ts"] - 10_000 + start, "args": dict(event["args"])}
            for key, shift in (
                ("External id", start),
                ("correlation", start),
                ("Sequence number", start),
            ):
                if key in event["args"]:
                    event["args"][key] += shift
            if event["name"] == "ProfilerStep#1":
                event["name"] = f"ProfilerStep#{start}"
        trace["traceEvents"] += (
            copies
            if start == 30_000
            else [event for event in copies if event["name"] != "aten::linear"]
        )
    found = profile(trace)
    assert "ignored: 1 steps left out whose layers differ from those of the others" in found.notes
    assert found.provenance["steps"] == "3"


def test_a_trace_of_the_cpu_as_torch_wrote_it():
    """Two steps of conv, batch norm, ReLU, pool and linear, batch 4, recorded with PyTorch 2.13 on
    a CPU.
    """
    found = profile_kineto(DATA / "cpu.kineto.json")
    layers = {layer.name: layer for layer in found.layers}
    assert layers["conv2d.0"].parameters == (216, 8)
    assert layers["batch_norm.0"].parameters == (8, 8)
    assert layers["linear.0"].parameters == (80, 10)
    assert found.model().parameters == 330
    assert found.measured.batch_sizes == (4,)
    assert (
        "assumed: no GPU in the trace: times are those of the operators on the CPU" in found.notes
    )
    ready = dict(zip(layers, found.measured.gradient_ready_s[0], strict=True))
    assert ready["conv2d.0"] > ready["batch_norm.0"] > ready["linear.0"] > 0


def test_a_gzipped_trace_and_a_bare_list(tmp_path, profile):
    path = tmp_path / "job.json.gz"
    path.write_bytes(gzip.compress(json.dumps(gpu_trace()["traceEvents"]).encode()))
    zipped, plain = profile_kineto(path), profile(gpu_trace())
    assert (zipped.layers, zipped.measured.forward_s) == (plain.layers, plain.measured.forward_s)
    assert (zipped.name, plain.name) == ("job", "job")


def test_a_batch_and_a_name_can_be_given(profile):
    found = profile(gpu_trace(), batch=2, name="mine")
    assert (found.name, found.measured.batch_sizes, found.layers[1].forward_flop) == (
        "mine",
        (2,),
        320,
    )


def without(trace, *names):
    return trace | {
        "traceEvents": [
            event for event in trace["traceEvents"] if not event["name"].startswith(names)
        ]
    }


def stripped(trace):
    for event in trace["traceEvents"]:
        event.get("args", {}).pop("Input Dims", None)
    return trace


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "json:1: must be JSON, but: Expecting value (column 1)"),
        (
            '{"traceEvents": [\n{"ph"]}',
            "json:2: must be JSON, but: Expecting ':' delimiter (column 6)",
        ),
        ("[" * 100_000, "must be a trace, but is nested too deeply"),
        ("{}", "must be a Chrome trace with a list traceEvents, as export_chrome_trace writes it"),
        ('{"traceEvents": [1]}', "traceEvents[0] must be a JSON object, but is int"),
        (
            '{"traceEvents": [{"ph": "X", "ts": 1}]}',
            "traceEvents[0].dur must be a number, but got None",
        ),
        (
            '{"traceEvents": [{"ph": "X", "ts": "x", "dur": 1}]}',
            "traceEvents[0].ts must be a number, but got 'x'",
        ),
        (
            '{"traceEvents": [{"ph": "X", "ts": 1, "dur": -1}]}',
            "traceEvents[0] must have a finite time and a duration from 0 on",
        ),
        (
            '{"traceEvents": [{"ph": "X", "ts": NaN, "dur": 1}]}',
            "traceEvents[0] must have a finite time and a duration from 0 on",
        ),
        (
            '{"traceEvents": []}',
            "must have events of category cpu_op: profile with ProfilerActivity.CPU as well",
        ),
        (
            stripped(gpu_trace()),
            "no shapes that tell the batch: profile with record_shapes=True, or give --batch",
        ),
        (
            without(gpu_trace(), "autograd::"),
            "must have a training step: no backward operator belongs to a forward one",
        ),
    ],
)
def test_broken_traces(tmp_path, content, message):
    path = tmp_path / "t.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(DpsimError) as caught:
        profile_kineto(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "t.json.gz").write_bytes(b"\x1f\x8bnonsense")
    for name in ("none.json", "t.json.gz"):
        with pytest.raises(DpsimError, match=rf"{name}: cannot be read: "):
            profile_kineto(tmp_path / name)


def event(name, start, end, thread=1):
    return Event(name, "cpu_op", start, end, thread, {})


def test_operators_nest_by_time_on_their_thread():
    events = [
        event("c", 2, 3),
        event("a", 0, 10),
        event("b", 1, 4),
        event("other", 2, 3, 2),
        event("d", 5, 6),
        event("e", 10, 12),
    ]
    roots = nest(events)
    assert [[one.name for one in root.walk()] for root in roots] == [
        ["a", "b", "c", "d"],
        ["other"],
        ["e"],
    ]
    assert events[0].root().name == "a"


def test_operators_without_end_inside_each_other_are_refused():
    deep = [event("a", number, 2000 - number) for number in range(501)]
    with pytest.raises(DpsimError, match="operators must be nested at most 500 deep, but 'a' lies"):
        nest(deep)
    assert len(nest(deep[1:])) == 1


def test_innermost_interval():
    outer, inner, inside, after = (
        event("outer", 0, 10),
        event("inner", 1, 4),
        event("x", 2, 3),
        event("y", 5, 6),
    )
    elsewhere, across = event("z", 2, 3, 2), event("w", 9, 12)
    found = innermost([outer, inner], [inside, after, elsewhere, across])
    assert found == {id(inside): inner, id(after): outer}


def test_the_command_writes_a_profile_that_a_scenario_takes(dpsim, tmp_path):
    trace = write(tmp_path / "job.json", gpu_trace())
    code, out, err = dpsim("import", "kineto", trace, "-o", tmp_path / "p.json")
    assert (code, out) == (0, "")
    assert "taken: 3 layers, 314 parameters" in err
    assert "ignored: 0.000748 s of a step of 0.001 s, in which no kernel runs" in err
    assert "job: breakdown of a traced step of 1 ms" in err
    assert re.search(r"conv2d.0 +│ 150 us │ +60 us │ +90 us │ 15.0%", err)
    assert (
        "measured at batch 4: forward 7.2e-05 s, backward 0.000113 s; 1 collective calls a step"
        in err
    )
    assert (
        "ignored: activations and memory traffic, which a trace does not tell: memory is not "
        "predicted\n" in err
    )
    scenario = tmp_path / "s.yaml"
    model = "workload: {model: {profile: p.json}, batch_per_gpu: 4}"
    scenario.write_text(f"name: own\ncluster: {{nodes: 2, node: dgx1-v100}}\n{model}\n")
    code, out, _ = dpsim("check", scenario)
    assert code == 0
    code, out, err = dpsim("import", "kineto", tmp_path / "none.json")
    assert (code, out) == (2, "")
    assert "none.json: cannot be read: No such file or directory" in err


def test_the_profile_has_the_documented_keys(dpsim, tmp_path):
    code, out, _ = dpsim("import", "kineto", write(tmp_path / "job.json", gpu_trace()))
    assert code == 0
    assert list(json.loads(out)) == ["schema_version", *documented_keys("dpsim import torch")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--input", "3,x"],
            "--input: must be whole numbers of at least 1, such as 1,2,4, but got '3,x'",
        ),
        (["--input", "0"], "--input: must be whole numbers of at least 1"),
        (["--input", "3", "--dtype", "int8"], "--dtype must be float32 or int64, but got 'int8'"),
    ],
)
def test_the_torch_command_refuses_what_it_cannot_trace(dpsim, options, message):
    code, out, err = dpsim("import", "torch", "a.b:c", *options)
    assert (code, out) == (2, "")
    assert message in err
