"""Quirks of public traces, such as those that HolisticTraceAnalysis is tested with.

Each is written anew here: what is read, and the one line that says why a trace cannot answer.
"""

import json

import pytest
from kineto_traces import gpu_trace, write

from dpsim.imports.kineto import profile_kineto

LAUNCHED = ("kernel", "cuda_runtime")


def changed(change):
    """The trace with a change to each event in it; None drops the event."""
    trace = gpu_trace()
    trace["traceEvents"] = [
        after for event in trace["traceEvents"] if (after := change(event)) is not None
    ]
    return trace


def recategorised(categories):
    return lambda event: event | {"cat": categories.get(event.get("cat"), event.get("cat"))}


def numbered_by_launches(trace):
    """Launches stand in their operators; ids of kernels count launches, as torch 1.x wrote them.

    So a kernel has the id of another operator.
    """
    operators = {
        event["args"]["External id"]: event
        for event in trace["traceEvents"]
        if event.get("cat") == "cpu_op"
    }
    others = dict(zip(operators, [*operators][5:] + [*operators][:5], strict=True))
    for event in trace["traceEvents"]:
        if event.get("cat") in LAUNCHED:
            operator = operators[event["args"]["External id"]]
            if event["cat"] == "cuda_runtime":
                event |= {"tid": operator["tid"], "ts": operator["ts"] + 0.5, "dur": 0.5}
            event["args"]["External id"] = others[event["args"]["External id"]]
    return trace


def in_hip(event):
    """RCCL on ROCm: launches of HIP, and one name for all collectives."""
    if event["name"].startswith("nccl"):
        return event | {"name": "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)"}
    return event | {"name": event["name"].replace("cudaLaunchKernel", "hipLaunchKernel")}


def to_the_nanosecond(event):
    return event | {"ts": 1_711_927_912_345_678.125 + event["ts"]}


READ = {
    "ids of launches": lambda: numbered_by_launches(gpu_trace()),
    "ROCm": lambda: changed(in_hip),
    "nanoseconds since 1970": lambda: changed(to_the_nanosecond),
    "no properties": lambda: {"traceEvents": gpu_trace()["traceEvents"]},
    "launches of XPU": lambda: changed(recategorised({"cuda_runtime": "xpu_runtime"})),
}


@pytest.mark.parametrize("quirk", READ)
def test_the_layers_and_the_call_are_as_without_it(tmp_path, quirk):
    plain, found = (
        profile_kineto(write(tmp_path / "trace.json", trace))
        for trace in (gpu_trace(), READ[quirk]())
    )
    assert found.layers == plain.layers
    for name in ("forward_s", "backward_s", "gradient_ready_s"):
        times, wanted = (getattr(each.measured, name)[0] for each in (found, plain))
        assert times == pytest.approx(wanted, abs=1e-6)
    (call,), (wanted) = found.collectives, plain.collectives
    assert (call.operation, call.payload_bytes) == (wanted[0].operation, wanted[0].payload_bytes)


@pytest.mark.parametrize("quirk", READ)
def test_communication_is_divided_into_exposed_and_overlapped(dpsim, tmp_path, quirk):
    code, out, _ = dpsim("advise", write(tmp_path / "trace.json", READ[quirk]()), "--json")
    assert code == 0
    answer = json.loads(out)
    assert answer["communication_s"] == pytest.approx(60e-6, abs=1e-6)
    assert answer["exposed_s"] == pytest.approx(60e-6, abs=1e-6)


def of_inference(event):
    return None if "Backward" in event["name"] or "nccl" in event["name"] else event


def without_sizes(event):
    output = ("Collective name", "In msg nelems", "dtype", "Group size")
    args = {key: value for key, value in event.get("args", {}).items() if key not in output}
    return event | {"args": args}


REFUSED = {
    "MTIA": (
        recategorised({"kernel": "mtia_ccp_events", "cuda_runtime": "mtia_runtime"}),
        "what was launched has category 'mtia_ccp_events', which is not read",
    ),
    "counters of CUPTI": (
        recategorised({"kernel": "cuda_profiler_range"}),
        "what was launched has category 'cuda_profiler_range', which is not read",
    ),
    "inference": (of_inference, "must have a training step"),
    "calls without sizes": (
        without_sizes,
        "(it has 1 calls without: 60 us of communication a step, 60 us exposed)",
    ),
}


@pytest.mark.parametrize("quirk", REFUSED)
def test_a_trace_that_cannot_answer_says_why_in_one_line(dpsim, tmp_path, quirk):
    change, why = REFUSED[quirk]
    code, out, err = dpsim("advise", write(tmp_path / "trace.json", changed(change)))
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert why in err


@pytest.mark.parametrize(
    "content", [{"schema": "1.0.2-chakra.0.0.4", "nodes": []}, [[1, [2, 3]], [4, [5]]]]
)
def test_what_is_no_chrome_trace_is_one_line(dpsim, tmp_path, content):
    """An execution trace, and the raw timeline of the memory profiler."""
    code, _, err = dpsim("advise", write(tmp_path / "trace.json", content))
    assert (code, len(err.splitlines())) == (2, 1)
    assert "must be a" in err
