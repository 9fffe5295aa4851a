"""``dpsim collective --library``, ``dpsim explain collective`` and the scenario's field
``library``.
"""

import json
import re
from pathlib import Path

import pytest
from json_docs import documented_keys

from dpsim.strategy.aggregation import AllReduceConfig

ROOT = Path(__file__).parents[2]
QUICKSTART = str(ROOT / "scenarios" / "quickstart.yaml")
FEW = ["--set", "run.steps=3", "--set", "run.warmup=1"]


def test_nccl_names_its_choice_at_every_size(dpsim):
    args = [
        "collective",
        "--cluster",
        "dgx-h100",
        "--library",
        "nccl",
        "-b",
        8,
        "-e",
        "8G",
        "-f",
        2,
        "--json",
    ]
    code, out, _ = dpsim(*args)
    rows = json.loads(out)["rows"]
    assert code == 0
    assert len(rows) == 31
    assert {row["algorithm"] for row in rows} == {"auto"}
    assert (rows[0]["used"], rows[-1]["used"]) == ("ring/LL", "nvls/Simple")
    assert all(row["time_s"] > 0 for row in rows)


def test_an_algorithm_holds_nccl_to_it(dpsim):
    args = [
        "collective",
        "--cluster",
        "dgx-h100",
        "--nodes",
        2,
        "--library",
        "nccl",
        "-b",
        "1G",
        "--json",
    ]
    times = {}
    for name in ("auto", "ring", "tree"):
        _, out, _ = dpsim(*args, "--algorithm", name)
        (row,) = json.loads(out)["rows"]
        times[row["used"].split("/")[0]] = row["time_s"]
    assert set(times) == {"nvlstree", "ring", "tree"}


@pytest.mark.parametrize(("library", "used"), [("gloo", "ring"), ("mpi", "rabenseifner")])
def test_other_libraries(dpsim, library, used):
    _, out, _ = dpsim(
        "collective",
        "--cluster",
        "dgx-a100",
        "--nodes",
        2,
        "--library",
        library,
        "-b",
        "64M",
        "--json",
    )
    (row,) = json.loads(out)["rows"]
    assert row["used"] == used


def test_a_library_in_a_scenario(dpsim):
    def step(*sets):
        code, out, _ = dpsim(
            "run", QUICKSTART, "--json", *FEW, *(word for text in sets for word in ("--set", text))
        )
        assert code == 0
        return json.loads(out)["step_time_s"]["mean"]

    nccl = step("strategy.aggregation.library=nccl", "strategy.aggregation.algorithm=auto")
    ideal = step("strategy.aggregation.library=ideal")
    assert nccl == step()
    assert nccl == pytest.approx(ideal, rel=0.1)
    assert nccl != ideal


def test_the_library_of_amd_gpus_is_named_rccl(dpsim):
    sets = ("cluster.node=mi300x-8gpu", "cluster.nodes=1", "workload.precision=bf16")
    code, out, _ = dpsim("run", QUICKSTART, *FEW, *(w for text in sets for w in ("--set", text)))
    assert code == 0
    assert "library     rccl (auto: RCCL serves these GPUs and has the algorithm)" in out
    assert "library     nccl (auto: NCCL serves" in dpsim("run", QUICKSTART, *FEW)[1]


def test_whose_collective_is_timed_where_nobody_says_it(dpsim):
    """NCCL's on NVIDIA GPUs; only schedules where algorithms are named or nothing is known of the
    GPUs; with auto, of each algorithm, NCCL's where it has it.
    """

    def run(*args):
        code, out, _ = dpsim("collective", *args, "-b", "1M", "--json")
        assert code == 0
        return [(row["algorithm"], row["library"]) for row in json.loads(out)["rows"]]

    assert run("--cluster", "dgx-h100") == [("auto", "nccl")]
    assert run("--cluster", "dgx-h100", "--algorithm", "ring") == [("ring", "ideal")]
    assert run("--cluster", "dgx-h100", "--network-model", "rounds") == [("ring", "ideal")]
    assert run("--ranks", 4, "--bandwidth", "1 GB/s") == [("ring", "ideal")]
    both = run("--cluster", "dgx-h100", "--library", "auto", "--algorithm", "ring,swing")
    assert both == [("ring", "nccl"), ("swing", "ideal")]


def test_a_library_chooses_unless_the_algorithm_is_given():
    def chosen(**fields):
        return AllReduceConfig(kind="allreduce", **fields).all_reduce.algorithm

    assert [
        chosen(),
        chosen(library="ideal"),
        chosen(library="nccl"),
        chosen(library="nccl", algorithm="ring"),
    ] == [
        "auto",
        "ring",
        "auto",
        "ring",
    ]


def test_explain_names_algorithm_protocol_and_reason(dpsim):
    code, out, _ = dpsim(
        "explain", "collective", "--cluster", "dgx-h100", "--library", "nccl", "-b", "1M"
    )
    assert code == 0
    assert re.search(r"1,048,576 B by ring/LL: [\d.]+ us, 90% within [\d.]+ to [\d.]+ us", out)
    assert re.search(r"nvls/Simple .* │ +[\d.]+ to [\d.]+ us", out)
    assert "why: NCCL estimates ring/LL" in out
    assert "most of it is latency" in out
    assert "up it would be nvls/Simple" in out


def test_explain_json_has_the_documented_keys(dpsim):
    _, out, _ = dpsim("explain", "collective", "--cluster", "dgx-h100", "--json")
    keys = documented_keys("dpsim explain collective")
    assert set(json.loads(out)) == {"schema_version", "kind", *keys}


def test_an_explained_time_has_the_interval_and_the_kin_that_it_has_unexplained(dpsim):
    machine = ["--cluster", "dgx-h100", "--library", "nccl", "-b", "1M", "--json"]
    explained = json.loads(dpsim("explain", "collective", *machine)[1])
    (row,) = json.loads(dpsim("collective", *machine)[1])["rows"]
    assert explained["interval_s"] == {**row["interval_s"], "extrapolated": row["extrapolated"]}
    assert explained["interval_s"]["low"] < explained["time_s"] < explained["interval_s"]["high"]
    assert explained["rivals"][0]["interval_s"] == explained["interval_s"]
    assert explained["nearest_machines"] == row["nearest_machines"] != []


def test_an_explained_time_notes_unmeasured_machines(dpsim):
    _, out, _ = dpsim("explain", "collective", "--cluster", "gcp-a3-high", "--nodes", 2, "-b", "1G")
    assert out.splitlines()[-1].startswith("extrapolated: no machine with TCPX ran all_reduce")


def test_rows_name_the_nearest_measured_machines_that_corrected_them(dpsim):
    sizes = ["--cluster", "dgx-h100", "-b", "1M", "-e", "2M"]
    text = dpsim("collective", *sizes, "--library", "nccl")[1]
    assert text.count("corrected by the nearest measured machines: ") == 1
    for library, nodes, nearest in (("nccl", 2, []), ("gloo", 1, None)):
        answer = dpsim("collective", *sizes, "--library", library, "--nodes", nodes, "--json")[1]
        assert [row["nearest_machines"] for row in json.loads(answer)["rows"]] == [nearest, nearest]


WRONG = {
    "unknown library": (
        ["collective", "--cluster", "dgx-h100", "--library", "ncll"],
        "did you mean 'nccl'",
    ),
    "NCCL has no butterfly": (
        ["collective", "--cluster", "dgx-h100", "--library", "nccl", "--algorithm", "butterfly"],
        "algorithm must be auto, ring, tree or in-network",
    ),
    "a bare switch": (
        ["collective", "--ranks", 4, "--bandwidth", "1 GB/s", "--library", "nccl"],
        "must have a cluster",
    ),
    "flows": (
        ["collective", "--cluster", "dgx-h100", "--library", "nccl", "--network-model", "flows"],
        "must be auto",
    ),
    "explaining gloo": (
        ["explain", "collective", "--cluster", "dgx-h100", "--library", "gloo"],
        "--library must be nccl",
    ),
    "explaining nothing": (
        ["explain", "collective", "--cluster", "dgx-h100", "-b", "0"],
        "-b: must be above 0",
    ),
    "a scenario's butterfly": (
        [
            "run",
            QUICKSTART,
            "--set",
            "strategy.aggregation.library=nccl",
            "--set",
            "strategy.aggregation.algorithm=butterfly",
        ],
        "algorithm must be auto, ring, tree or in-network",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_one_clear_line_and_code_2(case, dpsim):
    args, message = WRONG[case]
    code, out, err = dpsim(*args)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
