"""Microbenchmarks on two ranks.

What they leave, who can read it, and what is kept of a run that fails.
"""

import contextlib
import io
import json
import math
from unittest import mock

import pytest
from json_docs import section

from dpsim import cli
from dpsim.collectives import OPERATIONS
from dpsim.imports.nccl_tests import parse_nccl_tests
from dpsim.workload import load_model_profile

pytestmark = pytest.mark.torch
FEW = [
    "-b",
    "64",
    "-e",
    "4K",
    "-f",
    "64",
    "-n",
    "3",
    "-w",
    "1",
    "--batch-sizes",
    "1,3",
    "--learners",
    "2",
]


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """The run file, the profile and what was printed, of all benchmarks on two ranks."""
    folder = tmp_path_factory.mktemp("run")
    paths = ["--output", folder / "run.json", "--profile", folder / "profile.json"]
    many = ["--ranks", "2", "--operation", "all", "--device", "cpu"]
    command = ["dpsim", "validate", "microbench", *many, *FEW, *map(str, paths)]
    output = io.StringIO()
    with (
        mock.patch("sys.argv", command),
        contextlib.redirect_stdout(output),
        pytest.raises(SystemExit) as ended,
    ):
        cli.main()
    assert not ended.value.code
    return folder, output.getvalue()


@pytest.fixture(scope="module")
def run(everything):
    from validate.microbench.run_file import RunFile

    return RunFile.model_validate_json((everything[0] / "run.json").read_text())


def test_the_run_says_what_where_and_with_which_versions(run):
    assert run.what == (
        "collectives",
        "point-to-point",
        "reduction",
        "copies",
        "layers",
        "optimizer",
        "codecs",
        "learners",
        "products",
        "spread",
        "beside",
    )
    assert [place.rank for place in run.ranks] == [0, 1]
    assert run.backend == "gloo"
    assert run.machine["cores"] >= 1
    assert set(run.provenance) >= {"dpsim", "python", "torch", "date"}
    assert run.failed is None
    assert run.not_run == {"copies": "there is no GPU to copy to: the device is the CPU"}
    assert {row["what"] for row in run.rows} == {*run.what} - {"copies"}


def test_every_time_is_there_and_is_the_median_of_its_repetitions(run):
    for row in run.rows:
        for name, times in row.items():
            if name.endswith("times_s") and times is not None:
                assert len(times) == 3
                assert row[name.replace("times_s", "time_s")] == sorted(times)[1]
                assert (
                    row["what"] == "point-to-point" or min(times) > 0
                )  # a burst's times are differences


def test_no_collective_was_wrong_and_each_is_counted_as_in_nccl_tests(run):
    rows = run.of("collectives")
    assert {row["operation"] for row in rows} == set(OPERATIONS)
    assert not any(row["wrong"] or row["in_place_wrong"] for row in rows)
    for row in rows:
        algbw, busbw = row["algbw_Bps"], row["busbw_Bps"]
        assert algbw == pytest.approx(row["bytes"] / row["time_s"])
        assert busbw == pytest.approx(algbw * OPERATIONS[row["operation"]].bus_factor(2))
    by_name = {
        row["operation"]: row
        for row in rows
        if row["algorithm"] == "library" and row["bytes"] in (0, 4096)
    }
    assert [
        by_name[name]["count"] for name in ("all-reduce", "broadcast", "all-gather", "all-to-all")
    ] == [1024, 1024, 512, 512]
    assert [by_name[name]["root"] for name in ("all-reduce", "broadcast", "reduce")] == [-1, 0, 0]
    assert by_name["all-to-all"]["in_place_time_s"] is None
    assert [by_name[name]["redop"] for name in ("all-reduce", "all-gather")] == ["sum", "none"]


def test_a_step_computes_with_and_without_an_all_reduce(run):
    rows = run.of("beside")
    assert [row["bytes"] for row in rows] == [64, 4096]
    for row in rows:
        assert row["lost_s"] == row["beside_s"] - row["alone_s"]
        assert 0 < row["sent_s"] < row["beside_s"]


def test_pairs_are_measured_in_three_ways(run):
    rows = run.of("point-to-point")
    assert [(row["bytes"], row["pattern"]) for row in rows] == [
        (size, pattern) for size in (64, 4096) for pattern in ("ping-pong", "exchange", "burst")
    ]


def test_layers_are_read_as_a_profile_and_add_up_to_the_passes(everything, run):
    profile = load_model_profile(everything[0] / "profile.json")
    measured = profile.model().measured
    assert measured.batch_sizes == (1, 3)
    assert profile.model().parameters == 294_314
    for row, forward, backward in zip(
        run.of("layers"), measured.forward_s, measured.backward_s, strict=True
    ):
        assert min(forward) > 0
        assert math.fsum(forward) == pytest.approx(row["forward_pass_time_s"])
        assert math.fsum(backward) == pytest.approx(row["backward_pass_time_s"])


def test_a_scenario_runs_with_the_profile(everything, tmp_path, monkeypatch, capsys):
    scenario = tmp_path / "mine.yaml"
    workload = f"{{model: {{profile: {everything[0] / 'profile.json'}}}, batch_per_gpu: 3}}"
    scenario.write_text(
        f"name: mine\ncluster: {{nodes: 1, node: dgx1-v100}}\nworkload: {workload}\n"
    )
    monkeypatch.setattr(
        "sys.argv", ["dpsim", "run", str(scenario), "--json", "--set", "run.steps=2"]
    )
    with pytest.raises(SystemExit) as ended:
        cli.main()
    answer = json.loads(capsys.readouterr().out)
    assert ended.value.code in (0, None)
    assert answer["calibration"] == "profile"
    measured = load_model_profile(everything[0] / "profile.json").measured
    single = sum(measured.forward_s[1]) + sum(measured.backward_s[1])
    assert answer["parts_s"]["compute"] >= single


def test_learners_share_the_device(run):
    rows = run.of("learners")
    assert [(row["batch"], row["learners"]) for row in rows] == [(1, 1), (1, 2), (3, 1), (3, 2)]
    for row in rows:
        assert row["samples_per_s"] == pytest.approx(row["batch"] * row["learners"] / row["time_s"])


def test_codecs_and_updates_are_all_there(run):
    from validate.microbench.settings import MEASURED  # imports torch

    assert {row["optimizer"] for row in run.of("optimizer")} == {*MEASURED}
    codecs = run.of("codecs")
    assert (
        len({(row["codec"], row["library"], row["direction"], row["bytes"]) for row in codecs})
        == 10 * 2 * 2 * 2
    )


def test_tables_are_printed_and_those_of_collectives_are_nccl_tests(everything):
    _, out = everything
    blocks = out.split("\n#\n# ")
    table = next(block for block in blocks if block.startswith("all_reduce_perf: library\n"))
    listed = next(block for block in blocks if block.startswith("Using devices"))
    log = parse_nccl_tests(f"# {listed}\n#\n# {table}".encode())
    assert (log.operation, log.ranks, log.wrong_values) == ("all-reduce", 2, 0)
    assert [row.bytes for row in log.rows] == [64, 4096]
    assert "copies: not run: there is no GPU to copy to" in out


def test_keys_are_documented(run):
    text = section("dpsim validate microbench")
    keys = {*type(run).model_fields, *(key for row in run.rows for key in row)}
    assert [key for key in sorted(keys) if f"`{key}`" not in text] == []


def test_under_torchrun_only_rank_0_prints(under_torchrun):
    first, second = under_torchrun["microbench"]
    assert second == ""
    answer = json.loads(first)
    measured = [
        (row["operation"], row["algorithm"], row["bytes"])
        for row in answer["rows"]
        if row["what"] == "collectives"
    ]
    names = [
        ("all-gather", "library"),
        ("all-gather", "ring"),
        ("all-to-all", "library"),
        ("all-to-all", "pairwise"),
    ]
    assert measured == [(*name, size) for name in names for size in (64, 4096)]
    assert len(answer["rows"]) == len(measured) + 2
    assert len(answer["ranks"]) == 2


@pytest.fixture
def dpsim(dpsim):
    """Runs a command in this process; answers exit code and stderr."""

    def call(*args):
        code, _, err = dpsim("validate", "microbench", *args)
        return code, err

    return call


def test_what_was_measured_before_a_failure_is_kept(dpsim, tmp_path):
    """The model falls over when it is first built for real: after the reductions, before any
    layer.
    """
    (tmp_path / "net.py").write_text(
        "import torch\n\n\nclass Net(torch.nn.Linear):\n"
        "    def __init__(self):\n        super().__init__(4, 4)\n"
        "        if self.weight.device.type != 'meta':\n            raise RuntimeError('no room "
        "for it')\n"
    )
    model = ["--model", f"{tmp_path}/net.py:Net", "--input", "4"]
    code, err = dpsim(
        "reduction", "layers", "--ranks", "1", "--output", tmp_path / "run.json", *FEW, *model
    )
    from validate.microbench.run_file import RunFile

    kept = RunFile.model_validate_json((tmp_path / "run.json").read_text())
    assert code == 1
    assert "rank 0 on localhost exited with code 1" in err
    assert err.splitlines()[-1].split() == ["dpsim:", "RuntimeError:", "no", "room", "for", "it"]
    assert [row["what"] for row in kept.rows] == ["reduction"] * 2
    assert "no room for it" in kept.failed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["collective"],
            "must be a known microbenchmark, but got 'collective' (did you mean 'collectives'?)",
        ),
        (
            ["reduction", "-d", "float16"],
            "must be a known value of -d, but got 'float16' (did you mean 'bfloat16'?)",
        ),
        (
            ["collectives", "--algorithm", "rign"],
            "must be a known all-reduce algorithm, but got 'rign' (did you mean 'ring'?)",
        ),
        (["collectives", "-b", "8Q"], "-b: must be an amount of data with its unit"),
        (
            ["collectives", "-b", "8", "-e", "4"],
            "begin must be at most the end of 4 bytes, but got 8 bytes",
        ),
        (
            ["layers", "--model", "resnet-fifty"],
            "--model must be small-cnn, small-transformer, a model of the catalogue or",
        ),
        (["layers", "--model", "a.b:c"], "--input must say the shape of one sample for a.b:c"),
        (
            ["layers", "--batch-sizes", "1,x"],
            "--batch-sizes: must be whole numbers of at least 1, such as 1,2,4, but got '1,x'",
        ),
        (
            ["reduction", "--profile", "p.json"],
            "--profile must come with layers, but got reduction",
        ),
        (["reduction", "--device", "cuda"], "--device must be one of this machine's, but got cuda"),
    ],
)
def test_bad_options_are_one_clear_message(dpsim, arguments, message):
    code, err = dpsim(*arguments)
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1
