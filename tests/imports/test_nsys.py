"""An SQLite export of Nsight Systems: what steps consist of, and the profile of their layers."""

import json
import random
import tracemalloc

import pytest
from json_docs import documented_keys, section
from kineto_traces import gpu_trace, write
from nsys_exports import Export, as_nsys

from dpsim.base.errors import DpsimError
from dpsim.imports import nsys_tables
from dpsim.imports.kineto import profile_kineto
from dpsim.imports.nsys import read_nsys_profile
from dpsim.workload import ModelProfile

US, MS = 1e-6, 1e-3


@pytest.fixture
def export(tmp_path):
    return Export(tmp_path / "report.sqlite")


def two_steps(export):
    """Two steps of 1,000 us: 300 us of computing, 200 us of an all-reduce, half of it hidden."""
    for number, start in enumerate((1000.0, 2000.0), 5):
        export.range(f"step {number}", start, 1000, by_id=number == 6)
        export.kernel("gemm", start + 100, 300, start + 10)
        export.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start + 300, 200, start + 20)
        export.copy(start + 600, 50, 1)
    return export


def test_a_step_is_computing_exposed_communication_and_idle(export):
    first, second = read_nsys_profile(two_steps(export).done()).steps
    assert (first.step, second.step) == (5, 6)
    for step in (first, second):
        parts = (step.step_s, step.compute_s, step.collectives_s, step.exposed_s, step.idle_s)
        assert parts == pytest.approx((MS, 300 * US, 200 * US, 100 * US, 600 * US))
        assert step.copies_s == {"host to device": pytest.approx(50 * US)}


def test_a_kernel_belongs_to_the_step_that_launched_it(export):
    two_steps(export)
    export.kernel("late", 2010, 20, 1990)  # launched in the first, run in the second
    first, second = read_nsys_profile(export.done()).steps
    assert (first.compute_s, second.compute_s) == pytest.approx((320 * US, 300 * US))


def test_steps_may_be_called_anything(export):
    two_steps(export)
    export.range("batch 9", 1000, 2000)
    (only,) = read_nsys_profile(export.done(), steps="batch").steps
    assert (only.step, only.compute_s) == (9, pytest.approx(600 * US))


def test_without_ranges_all_is_one_step_without_layers(export):
    export.kernel("gemm", 100, 300, 10)
    found = read_nsys_profile(export.done())
    assert found.steps[0].step_s == pytest.approx(300 * US)
    assert found.profile is None
    assert found.why_none.startswith("no NVTX ranges of torch's operators")
    assert found.notes[0].startswith("assumed: one step, since no NVTX ranges")


def test_of_several_processes_the_busiest_counts(export):
    two_steps(export)
    export.kernel("gemm", 1100, 10, 1005, thread=99 * 2**24, process=99)
    found = read_nsys_profile(export.done())
    assert found.steps[0].compute_s == pytest.approx(300 * US)
    assert found.notes[0].startswith("ignored: 1 other processes")


def test_operators_of_torch_make_the_profile_that_a_kineto_trace_makes(export, tmp_path):
    trace = gpu_trace()
    expected = profile_kineto(write(tmp_path / "t.json", trace))
    found = read_nsys_profile(as_nsys(export, trace).done()).profile
    reported = [(layer.name, layer.kind, layer.parameters) for layer in expected.layers]
    assert [(layer.name, layer.kind, layer.parameters) for layer in found.layers] == reported
    assert found.layers[1] == expected.layers[1]
    assert found.layers[0].forward_flop == 0
    assert "since NVTX ranges hold no strides" in found.notes[-1]
    for key in ("forward_s", "backward_s", "gradient_ready_s", "optimizer_s"):
        theirs, ours = getattr(expected.measured, key), getattr(found.measured, key)
        assert ours[0] == pytest.approx(theirs[0])
    assert found.measured.device == "NVIDIA H100 80GB HBM3"
    assert found.provenance["source"] == "dpsim import nsys report.sqlite"


def test_the_command_shows_shares_and_writes_the_profile(dpsim, export, tmp_path):
    path, profile = as_nsys(export, gpu_trace()).done(), tmp_path / "p.json"
    code, out, _ = dpsim("import", "nsys", path, "-o", profile)
    assert code == 0
    assert "computing" in out
    ModelProfile.model_validate_json(profile.read_text())
    code, out, _ = dpsim("import", "nsys", path, "--json")
    answer = json.loads(out)
    heading = "dpsim import nsys FILE --json"
    assert list(answer) == ["schema_version", "kind", *documented_keys(heading)]
    assert all(f"`{key}`" in section(heading) for key in answer["steps"][0])


def test_a_profile_that_cannot_be_written_is_one_line(dpsim, export, tmp_path):
    path = two_steps(export).done()
    code, _, err = dpsim("import", "nsys", path, "-o", tmp_path / "p.json")
    assert code == 2
    assert f"{path}: has no layer profile: no NVTX ranges of torch's operators" in err


def broken(change):
    """An export with something in it changed."""

    def make(export):
        two_steps(export).file.executescript(change)

    return make


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL", "must have the table CUPTI_ACTIVITY_KIND_KERNEL"),
        ("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_KERNEL: must have rows"),
        (
            "ALTER TABLE NVTX_EVENTS DROP COLUMN globalTid",
            "NVTX_EVENTS: must have the column globalTid",
        ),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1 WHERE rowid = 2",
            "CUPTI_ACTIVITY_KIND_KERNEL: row 2: must have whole nanoseconds",
        ),
        ("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET start = 'x'", "MEMCPY: row 1: must have whole"),
        (
            "UPDATE StringIds SET value = 'ncclKernel'",
            "step 5 must have kernels that compute",
        ),
        (
            "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO k; CREATE VIEW "
            "CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE r(start) AS (SELECT 1 UNION ALL "
            "SELECT start FROM r) SELECT * FROM r",
            "must have the table CUPTI_ACTIVITY_KIND_KERNEL",
        ),
    ],
)
def test_an_export_that_cannot_be_used_says_which_table(export, change, rule):
    broken(change)(export)
    with pytest.raises(DpsimError, match=rule):
        read_nsys_profile(export.done())


def test_spoiled_bytes_end_in_an_error_or_an_answer(export):
    path = as_nsys(export, gpu_trace()).done()
    whole, drawn = path.read_bytes(), random.Random(0)
    for _ in range(200):
        content = bytearray(whole)
        for _ in range(drawn.choice((1, 4, 64))):
            content[drawn.randrange(len(content))] = drawn.randrange(256)
        path.write_bytes(content[: drawn.choice((len(content), drawn.randrange(len(content))))])
        try:
            read_nsys_profile(path)
        except DpsimError as problem:
            assert str(problem).startswith(str(path))  # noqa: PT017


def test_operators_that_lie_too_deep_are_one_line(export):
    made = two_steps(export)
    for depth in range(501):
        made.range("aten::mm", depth, 2000 - 2 * depth)
    path = made.done()
    with pytest.raises(DpsimError, match="operators must be nested at most 500 deep") as caught:
        read_nsys_profile(path)
    assert str(caught.value).startswith(str(path))


def test_reading_holds_a_fraction_of_what_rows_as_mappings_would(export):
    """Rows go by one by one: an event is kept of each kernel, its launch and its operator."""
    made = two_steps(export)
    for number in range(20_000):
        at = 2_000 + number
        made.kernel("gemm", at, 0.5, launched=at)
        made.range(f"aten::mm, seq = {number}, op_id = {number}, sizes = [[64, 64]]", at, 0.9)
    path = made.done()
    tracemalloc.start()
    read_nsys_profile(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < nsys_tables._MEMORY_PER_FILE_BYTE * path.stat().st_size


def test_rows_are_counted_of_the_process_that_is_read(export, monkeypatch):
    path = two_steps(export).done()
    monkeypatch.setattr("dpsim.imports.nsys.MOST_ROWS", 2)
    rule = "CUPTI_ACTIVITY_KIND_KERNEL: must have at most 2 rows of a process"
    with pytest.raises(DpsimError, match=rule):
        read_nsys_profile(path)


def test_a_file_that_would_fill_the_memory_is_refused_before_it_is_read(
    dpsim, export, tmp_path, monkeypatch
):
    path = as_nsys(export, gpu_trace()).done()
    monkeypatch.setattr("dpsim.base.budget.available_memory", lambda: 9.0 * path.stat().st_size)
    code, _, err = dpsim("import", "nsys", path, "-o", tmp_path / "p.json")
    assert code == 1
    assert "to read it would need about" in err
    assert err.endswith("profile fewer steps\n")
