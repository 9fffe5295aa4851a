"""A folder of traces of all ranks: who is slow, who is waited for, and the jitter."""

import json

import numpy as np
import pytest
from json_docs import documented_keys, section
from kineto_traces import Recorder, gpu_trace, step, write
from ruamel.yaml import YAML

from dpsim.base.errors import DpsimError
from dpsim.disturbance import CorrelatedJitterConfig, HistogramJitterConfig, fit_jitter
from dpsim.imports.kineto_ranks import disturbance_of, histogram_of, read_ranks
from dpsim.scenario import load_scenario

US = 1e-6
NAMES = "traces"
OWN = 182 * US  # all kernels of one rank's step but the all-reduce: 50+10+2+3+8+12+90+7


def trace(rank, slower, steps=3, stated=True):
    """Each step's update takes ``slower[step]`` us longer."""
    recorder = Recorder()
    for number in range(steps):
        step(recorder, number + 1, 10_000.0 * (number + 1))
        recorder.events[-2]["dur"] += slower[number]
    found = gpu_trace() | {"traceEvents": recorder.events}
    if stated:
        found["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 4}
    return found


def wait(found, seconds):
    """The all-reduce of each step takes so many us longer."""
    calls = [event for event in found["traceEvents"] if event["name"].startswith("ncclDevKernel")]
    for event, longer in zip(calls, seconds, strict=True):
        event["dur"] += longer
    return found


@pytest.fixture
def folder(tmp_path):
    """Rank 2 of four computes 40 us longer in each step, and the others wait for it."""
    (tmp_path / NAMES).mkdir()
    for rank in range(4):
        late = 40.0 if rank == 2 else 0.0
        found = wait(trace(rank, [late, late + rank, late]), [40 - late] * 3)
        write(tmp_path / NAMES / f"{'abdc'[rank]}.pt.trace.json", found)
    return tmp_path / NAMES


def test_the_slow_rank_is_found_by_its_kernels_and_by_who_waits(folder):
    found = read_ranks(folder)
    assert [one.rank for one in found.ranks] == [0, 1, 2, 3]
    assert [one.file[0] for one in found.ranks] == ["a", "b", "d", "c"]
    assert [one.compute_s for one in found.ranks] == pytest.approx([OWN, OWN, OWN + 40 * US, OWN])
    assert found.ranks[2].slowdown == pytest.approx((182 + 40) / 182)
    assert [one.wait_s for one in found.ranks] == pytest.approx([40 * US, 40 * US, 0, 40 * US])
    assert [one.last for one in found.ranks] == [0, 0, 1, 0]
    assert [one.collectives_s for one in found.ranks] == pytest.approx(
        [100 * US, 100 * US, 60 * US, 100 * US]
    )


def test_idle_is_what_no_kernel_covers(folder):
    one = read_ranks(folder).ranks[0]
    # Of the mark's 1,000 us: kernels that compute and the all-reduce, which overlap nowhere.
    assert one.idle_s == pytest.approx(1000 * US - OWN - 100 * US)


def test_kernels_that_overlap_count_once(tmp_path):
    # The convolution runs on beside the linear layer's 10 us.
    recorder = Recorder()
    step(recorder, 1, 10_000.0, slower=30.0)
    write(tmp_path / "rank0.json", gpu_trace() | {"traceEvents": recorder.events})
    assert read_ranks(tmp_path).ranks[0].compute_s == pytest.approx(OWN + 20 * US)


def test_steps_say_how_ranks_spread(folder):
    steps = read_ranks(folder).steps
    assert [(each.step, each.slowest_rank) for each in steps] == [(1, 2), (2, 2), (3, 2)]
    assert steps[1].fastest_s == pytest.approx(OWN)
    assert steps[1].median_s == pytest.approx(OWN + 2 * US)  # of 0, 1, 3 and 42 us
    assert steps[1].slowest_s == pytest.approx(OWN + 42 * US)


def test_without_a_gpu_operators_compute_and_gloo_waits(tmp_path):
    for rank, waited in enumerate((30, 0)):
        recorder = Recorder()
        recorder.event("user_annotation", "ProfilerStep#1", 0, 1000)
        recorder.operator("aten::mm", 100, 200 - waited)
        recorder.event("user_annotation", "gloo:all_reduce", 300 - waited, 50 + waited, thread=9)
        write(tmp_path / f"rank{rank}.json", {"traceEvents": recorder.events})
    found = read_ranks(tmp_path)
    assert [one.compute_s for one in found.ranks] == pytest.approx([170 * US, 200 * US])
    assert [one.wait_s for one in found.ranks] == pytest.approx([30 * US, 0])
    assert [one.last for one in found.ranks] == [0, 1]
    assert found.notes[0].startswith("assumed: no GPU in some traces")


def test_groups_that_do_not_meet_do_not_wait_for_each_other(tmp_path):
    for rank in range(4):
        found = wait(trace(rank, [0.0] * 3), [rank] * 3)
        for event in found["traceEvents"]:
            if event["name"].startswith("ncclDevKernel"):
                event["args"]["Process Group Ranks"] = "[0, 1]" if rank < 2 else "[2, 3]"
        write(tmp_path / f"rank{rank}.json", found)
    assert [one.wait_s for one in read_ranks(tmp_path).ranks] == pytest.approx([0, US, 0, US])


def test_ranks_are_those_of_file_names_where_traces_do_not_say(tmp_path):
    for name, rank in (("x-rank_10.json", 0), ("x-rank_9.json", 1)):
        write(tmp_path / name, trace(rank, [0.0] * 3, stated=False))
    assert [one.rank for one in read_ranks(tmp_path).ranks] == [9, 10]


def test_hosts_are_those_of_the_profiler_s_handler(tmp_path):
    for rank in range(4):
        name = f"node{rank // 2}_{100 + rank}.17{rank}.pt.trace.json"
        write(tmp_path / name, trace(rank, [0.0] * 3))
    found = read_ranks(tmp_path)
    assert [one.host for one in found.ranks] == ["node0", "node0", "node1", "node1"]
    assert found.nodes == (0, 0, 1, 1)
    assert found.notes == ()
    assert read_ranks(tmp_path, gpus_per_node=1).nodes == (0, 1, 2, 3)


def test_few_steps_make_a_histogram_and_name_the_slow_rank(folder):
    block = disturbance_of(read_ranks(folder))
    assert block["slow"] == [{"workers": [2], "factor": pytest.approx(222 / 182, abs=1e-4)}]
    jitter = HistogramJitterConfig.model_validate(block["jitter"])
    assert sum(jitter.histogram().weights) == 4 * 3


def test_the_histogram_has_the_spread_of_what_was_drawn(tmp_path):
    """Means of few steps follow the draws: without a correction the spread were too small."""
    drawn = np.random.default_rng(0).normal(0, 4, (4, 200))
    for rank in range(200):
        write(tmp_path / f"rank{rank}.json", trace(rank, 20 + drawn[:, rank], steps=4))
    table = histogram_of(read_ranks(tmp_path))
    spread = np.sqrt(np.cov(table["values"], fweights=np.array(table["weights"], dtype=int)))
    assert spread == pytest.approx(4 / 202, rel=0.05)


def test_many_steps_are_fitted_by_their_parts_and_dpsim_calibrate_fits_them_too(tmp_path, dpsim):
    times = CorrelatedJitterConfig.model_validate(
        {"kind": "correlated", "sigma": 0.02, "stall": 1}
    ).factors(4, 24, 1, 4)
    for rank in range(4):
        write(tmp_path / f"rank{rank}.json", trace(rank, 100 * times[:, rank], steps=24))
    found = read_ranks(tmp_path)
    block = fit_jitter(found.compute, [0] * 4).block(range(4))
    assert disturbance_of(found) == block
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "{name: s, cluster: {nodes: 1, node: dgx1-v100, gpus_per_node: 4}, workload: {model: resnet18, batch_per_gpu: 4}}"
    )
    written = tmp_path / "d.yaml"
    code, out, _ = dpsim("calibrate", scenario, tmp_path, "--disturbance", written, "--json")
    assert code == 0
    assert json.loads(out)["disturbance"] == block
    assert YAML(typ="safe").load(written) == {"disturbance": block}


def test_dpsim_calibrate_takes_few_steps_but_has_no_disturbance_of_them(folder, dpsim):
    scenario = folder.parent / "s.yaml"
    scenario.write_text(
        "{name: s, cluster: {nodes: 1, node: dgx1-v100, gpus_per_node: 4}, workload: {model: resnet18, batch_per_gpu: 4}}"
    )
    code, out, _ = dpsim("calibrate", scenario, folder, "--json")
    answer = json.loads(out)
    assert (code, answer["disturbance"]) == (0, None)
    # Its steps begin every 10 ms; rank 2 waits for nobody, and its all-reduce takes 60 us.
    (row,) = answer["rows"]
    assert (row["measured_ms"], row["measured_exposed_ms"]) == pytest.approx((10, 0.06))
    code, _, err = dpsim("calibrate", scenario, folder, "--disturbance", folder.parent / "d.yaml")
    assert code == 2
    assert err.endswith("must have a run of 20 single steps for --disturbance\n")


def test_the_slow_rank_keeps_its_number_where_others_have_no_trace(folder):
    (folder / "a.pt.trace.json").unlink()
    found = read_ranks(folder)
    assert disturbance_of(found)["slow"][0]["workers"] == [2]
    assert any("1 ranks below 3 have no trace" in note for note in found.notes)


def test_one_step_shows_who_is_slow_and_no_jitter(tmp_path):
    for rank in range(3):
        write(tmp_path / f"rank{rank}.json", trace(rank, [90.0 * (rank == 1)], steps=1))
    found = read_ranks(tmp_path)
    assert list(disturbance_of(found)) == ["slow"]
    assert histogram_of(found) is None


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda f: [path.unlink() for path in f.iterdir()], "must hold 1 to 4,096 files"),
        (lambda f: write(f / "e.json", trace(2, [0.0] * 3)), "must be of a rank of its own"),
        (
            lambda f: write(f / "e.json", trace(9, [0.0] * 3, stated=False)),
            "must say its rank",
        ),
        (lambda f: (f / "e.json").write_text("[1"), "e.json:1: must be JSON"),
        (
            lambda f: write(
                f / "e.json", {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "nccl:x",
                                                "ts": 0, "dur": 1}]}
            ),
            "e.json: step 0 must have kernels that compute",
        ),
    ],
)  # fmt: skip
def test_a_folder_that_cannot_be_used_says_which_file(folder, change, rule):
    change(folder)
    with pytest.raises(DpsimError, match=rule):
        read_ranks(folder)


def test_traces_without_a_common_step_are_refused(tmp_path):
    late = trace(1, [0.0], steps=1)
    for event in late["traceEvents"]:
        event["name"] = event["name"].replace("ProfilerStep#1", "ProfilerStep#7")
    write(tmp_path / "a.json", trace(0, [0.0], steps=1))
    write(tmp_path / "b.json", late)
    with pytest.raises(DpsimError, match="must have a step in common"):
        read_ranks(tmp_path)


def test_the_command_writes_a_profile_a_block_and_a_histogram(dpsim, folder, tmp_path):
    written = [tmp_path / name for name in ("p.json", "d.yaml", "h.csv")]
    code, out, err = dpsim(
        *("import", "kineto", folder, "-o", written[0], "--disturbance", written[1]),
        *("--histogram", written[2]),
    )
    assert code == 0
    assert "rank 2 most: last in 100% of its collectives" in out
    assert "22.0% of computing" in out
    assert [f"wrote {path}" in err for path in written] == [True] * 3
    # The profile is a typical rank's.
    assert json.loads(written[0].read_text())["notes"][0].startswith("of rank 1, whose")
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "name: traced\ncluster: {nodes: 1, node: dgx1-v100}\n"
        "workload: {model: {profile: p.json}, batch_per_gpu: 4}\n" + written[1].read_text()
    )
    loaded = load_scenario(scenario).disturbance
    assert loaded.slow[0].workers == (2,)
    scenario.write_text(
        "name: traced\ncluster: {nodes: 1, node: dgx1-v100}\n"
        "workload: {model: resnet18, batch_per_gpu: 4}\n"
        "disturbance: {jitter: {kind: histogram, file: h.csv}}\n"
    )
    read = load_scenario(scenario).disturbance.jitter.histogram()
    assert read == loaded.jitter.histogram()


def test_the_json_has_the_documented_keys(dpsim, folder):
    heading = "dpsim import kineto FOLDER --json"
    code, out, _ = dpsim("import", "kineto", folder, "--json")
    answer = json.loads(out)
    assert code == 0
    assert list(answer) == ["schema_version", "kind", *documented_keys(heading)]
    for rows in ("ranks", "steps"):
        assert all(f"`{key}`" in section(heading) for key in answer[rows][0])


def test_without_shapes_there_is_no_profile_but_all_else(dpsim, tmp_path):
    for rank in range(2):
        found = trace(rank, [0.0] * 3)
        for event in found["traceEvents"]:
            event.get("args", {}).pop("Input Dims", None)
        write(tmp_path / f"rank{rank}.json", found)
    code, out, err = dpsim("import", "kineto", tmp_path, "--json")
    assert (code, json.loads(out)["profile"]) == (0, None)
    assert "no layer profile:" in err
    code, _, err = dpsim("import", "kineto", tmp_path, "-o", tmp_path / "p.json")
    assert code == 2
    assert "rank0.json: the trace has no shapes" in err


def test_options_of_a_folder_are_refused_for_a_file(dpsim, folder, tmp_path):
    file = folder / "a.pt.trace.json"
    code, _, err = dpsim("import", "kineto", file, "--histogram", tmp_path / "h.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert "must be a folder of traces" in err
