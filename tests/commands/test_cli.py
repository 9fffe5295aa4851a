"""The command line: what it prints where, and with which exit code."""

import json
import re
import sys
from pathlib import Path

import pytest
from json_docs import documented_keys

from dpsim.collectives import algorithm_names

ROOT = Path(__file__).parents[2]
QUICKSTART = str(ROOT / "scenarios" / "quickstart.yaml")
FEW = ["--set", "run.steps=3", "--set", "run.warmup=1"]


def test_run_prints_a_table_and_what_it_means(dpsim):
    code, out, err = dpsim("run", QUICKSTART, *FEW)
    assert code == 0
    assert "quickstart: a step takes" in out
    assert "scaling efficiency" in out
    assert err == ""


def test_run_json_has_the_documented_keys(dpsim):
    code, out, _ = dpsim("run", QUICKSTART, "--json", *FEW)
    answer = json.loads(out)
    assert code == 0
    assert list(answer) == ["schema_version", "kind", *documented_keys("dpsim run")]
    assert list(answer["parts_s"]) == [
        "compute",
        "input",
        "encode",
        "exposed_comm",
        "straggler_wait",
        "other",
    ]
    assert sum(answer["parts_s"].values()) == pytest.approx(answer["step_time_s"]["mean"])


def test_compare_sorts_every_combination_best_first(dpsim):
    vary = [
        "--vary",
        "strategy.aggregation.algorithm=tree,ring",
        "--vary",
        "strategy.overlap.kind=sequential,buckets",
    ]
    single = ["--set", "strategy.aggregation.library=ideal"]
    code, out, _ = dpsim("compare", QUICKSTART, *vary, *single, "--json", *FEW)
    rows = json.loads(out)["rows"]
    assert code == 0
    assert len(rows) == 4
    assert [row["step_time_s"]["mean"] for row in rows] == sorted(
        row["step_time_s"]["mean"] for row in rows
    )
    assert rows[0]["variant"] == {
        "strategy.aggregation.algorithm": "ring",
        "strategy.overlap.kind": "buckets",
    }


def test_scale_counts_nodes_up_and_says_where_it_saturates(dpsim):
    code, out, _ = dpsim("scale", QUICKSTART, "--nodes", "1,2,4", "--json", *FEW)
    answer = json.loads(out)
    assert code == 0
    assert [row["nodes"] for row in answer["rows"]] == [1, 2, 4]
    assert [row["workers"] for row in answer["rows"]] == [8, 16, 32]
    assert answer["saturates_at_nodes"] is None
    slow = [
        "--set",
        "cluster.network.nic=1GbE",
        "--set",
        "strategy.aggregation.algorithm=master-worker",
    ]
    _, out, _ = dpsim("scale", QUICKSTART, "--nodes", "1,2,4", "--json", *FEW, *slow)
    assert json.loads(out)["saturates_at_nodes"] == 1


BARE = ["--ranks", "1024", "--bandwidth", "50 GB/s", "--latency", "500 ns"]


def test_collective_on_a_bare_network_is_the_formula(dpsim):
    code, out, _ = dpsim(
        "collective", *BARE, "--algorithm", "ring", "-b", "100MB", "-e", "100MB", "--json"
    )
    (row,) = json.loads(out)["rows"]
    chunk = -(-25_000_000 // 1024) * 4
    assert code == 0
    assert row["bytes"] == 100_000_000
    assert row["time_s"] == pytest.approx(2 * 1023 * (500e-9 + chunk / 50e9), rel=1e-9)
    assert row["algbw_Bps"] == pytest.approx(1e8 / row["time_s"])
    assert row["busbw_Bps"] == pytest.approx(row["algbw_Bps"] * 2 * 1023 / 1024)
    assert row["bytes_sent_total"] == 2 * 1023 * 100_000_000


@pytest.mark.parametrize("model", ["auto", "rounds", "closed-form"])
def test_network_models_agree_on_the_bare_network(dpsim, model):
    _, out, _ = dpsim(
        "collective",
        "--ranks",
        6,
        "--bandwidth",
        "1 GB/s",
        "-b",
        "1M",
        "--network-model",
        model,
        "--json",
    )
    _, flows, _ = dpsim(
        "collective",
        "--ranks",
        6,
        "--bandwidth",
        "1 GB/s",
        "-b",
        "1M",
        "--network-model",
        "flows",
        "--json",
    )
    assert json.loads(out)["rows"][0]["time_s"] == pytest.approx(
        json.loads(flows)["rows"][0]["time_s"], rel=1e-9
    )


def test_skew_starts_every_rank_at_its_own_time(dpsim):
    _, combined, _ = dpsim("collective", *BARE, "-b", "1M", "--json")
    _, skewed, _ = dpsim("collective", *BARE, "-b", "1M", "--json", "--skew", "1 ms", "--seed", "0")
    _, again, _ = dpsim("collective", *BARE, "-b", "1M", "--json", "--skew", "1 ms", "--seed", "0")
    _, other, _ = dpsim("collective", *BARE, "-b", "1M", "--json", "--skew", "1 ms", "--seed", "1")
    times = [json.loads(out)["rows"][0]["time_s"] for out in (combined, skewed, again, other)]
    assert times[0] < times[1] == times[2] != times[3]


def test_collective_sizes_are_binary_as_in_nccl_tests_unless_they_have_a_unit(dpsim):
    sizes = {"8": 8, "4K": 4096, "1M": 2**20, "1 MB": 10**6, "1MiB": 2**20, "1G": 2**30}
    for text, expected in sizes.items():
        _, out, _ = dpsim("collective", "--ranks", 2, "--bandwidth", "1 GB/s", "-b", text, "--json")
        assert json.loads(out)["rows"][0]["bytes"] == expected


def test_collective_on_a_cluster_of_the_catalogue_and_of_a_file(dpsim):
    _, named, _ = dpsim(
        "collective",
        "--cluster",
        "dgx-a100",
        "--nodes",
        2,
        "--algorithm",
        "all",
        "-b",
        "1M",
        "-e",
        "4M",
        "--json",
    )
    _, filed, _ = dpsim(
        "collective", "--cluster", QUICKSTART, "--algorithm", "ring,tree", "-b", "1M", "--json"
    )
    assert len(json.loads(named)["rows"]) == len(algorithm_names()) * 3
    assert [row["algorithm"] for row in json.loads(filed)["rows"]] == ["ring", "tree"]


@pytest.mark.parametrize(
    "operation",
    [
        "reduce",
        "broadcast",
        "gather",
        "scatter",
        "reduce-scatter",
        "all-gather",
        "all-to-all",
        "barrier",
    ],
)
def test_every_operation_is_there(dpsim, operation):
    code, out, _ = dpsim(
        "collective",
        *BARE[:0],
        "--ranks",
        5,
        "--bandwidth",
        "1 GB/s",
        "--operation",
        operation,
        "-b",
        "1K",
    )
    assert code == 0
    assert "1 KiB" in out


def test_check_does_not_repeat_a_name_of_thousands_of_characters(dpsim):
    code, out, _ = dpsim("check", 3_000 * "x")
    assert code == 2
    assert len(out) < 1_000
    assert out.endswith("must be a file that can be read, but: File name too long\n")


def test_check_says_ok_or_every_problem(dpsim, tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text(
        "name: x\ncluster: {nodes: 0, node: dgx1-v100}\nworkload: {model: resnet51, "
        "batch_per_gpu: 1}\n"
    )
    code, out, _ = dpsim("check", QUICKSTART, bad)
    assert code == 2
    assert f"{QUICKSTART}: ok" in out
    assert f"{bad}:2:18: cluster.nodes: must be" in out
    assert "did you mean 'resnet50'" in out


def test_schema_prints_the_committed_schema(dpsim):
    code, out, _ = dpsim("schema")
    assert code == 0
    committed = (ROOT / "scenarios" / "scenario.schema.json").read_text()
    assert out == committed, "run 'make golden', and look at the difference"


@pytest.mark.parametrize("kind", ["gpus", "links", "nodes", "models", "algorithms"])
def test_catalogue_lists_every_kind(dpsim, kind):
    code, out, _ = dpsim("catalogue", kind, "--json")
    rows = json.loads(out)["rows"]
    assert code == 0
    assert len(rows) >= 6
    assert all(str(value) for row in rows for value in row.values())
    code, out, _ = dpsim("catalogue", kind)
    assert code == 0
    # A line for each, below two of headings and above an empty one and a hint.
    assert len(out.splitlines()) == len(rows) + 4
    assert out.splitlines()[-1].endswith(f"dpsim catalogue {kind} {rows[0]['name']}")


WRONG = {
    "a value to vary": (
        ["compare", QUICKSTART, "--vary", "cluster.nodes=1,x"],
        "--vary cluster.nodes=x: cluster.nodes: must be",
    ),
    "numbers of nodes": (
        ["scale", QUICKSTART, "--nodes", "1-8"],
        "--nodes: must be whole numbers of at least 1, such as 1,2,4",
    ),
    "a rate for a link": (
        ["run", QUICKSTART, "--set", "cluster.network.nic=9 B/s"],
        "(dpsim catalogue links lists them)",
    ),
    "no such file": (["run", "nope.yaml"], "there is no such file"),
    "a directory": (["run", str(ROOT)], "got a directory"),
    "unknown override": (["run", QUICKSTART, "--set", "cluster.node_s=1"], "did you mean"),
    "a kind that is not there": (
        ["run", QUICKSTART, "--set", "strategy.aggregation.algorithm=butterfy"],
        "did you mean 'butterfly'?",
    ),
    "vary without values": (
        ["compare", QUICKSTART, "--vary", "cluster.nodes="],
        "--vary must be key=value,value",
    ),
    "an amount for a rate": (
        ["collective", "--ranks", "8", "--bandwidth", "25 Gb"],
        "--bandwidth: must be a data rate",
    ),
    "no rate": (
        ["collective", "--ranks", "8", "--bandwidth", "0 B/s"],
        "--bandwidth: must be above 0",
    ),
    "negative latency": (
        ["collective", "--ranks", "8", "--bandwidth", "1 B/s", "--latency", "-1 s"],
        "--latency: must be at least 0",
    ),
    "no network": (["collective"], "--cluster, or --ranks with --bandwidth"),
    "two networks": (
        ["collective", "--ranks", "8", "--cluster", "dgx-a100"],
        "--cluster must not be given with",
    ),
    "unknown node": (["collective", "--cluster", "dgx-a10"], "did you mean 'dgx-a100'?"),
    "unknown algorithm": (
        ["collective", "--cluster", "dgx-a100", "--algorithm", "rnig"],
        "did you mean 'ring'?",
    ),
    "unknown operation": (
        ["collective", "--cluster", "dgx-a100", "--operation", "all-redoce"],
        "did you mean 'all-reduce'?",
    ),
    "negative size": (["collective", *BARE, "-b", "-5"], "-b: must be"),
    "size out of range": (["collective", *BARE, "-b", "9999T"], "from 0 to 1 PiB"),
    "sizes that never end": (
        ["collective", *BARE, "-b", "1", "-e", "1G", "-f", "1"],
        "by a factor above 1",
    ),
    "end before begin": (
        ["collective", *BARE, "-b", "1M", "-e", "1K"],
        "begin must be at most the end of 1024 bytes, but got 1048576 bytes",
    ),
    "closed form on a cluster": (
        ["collective", "--cluster", "dgx-a100", "--network-model", "closed-form"],
        "one uniform switch",
    ),
    "unknown network model": (
        ["collective", *BARE, "--network-model", "round"],
        "did you mean 'rounds'?",
    ),
    "unknown catalogue": (["catalogue", "gpu"], "did you mean 'gpus'?"),
    "more GPUs than the node has": (
        ["run", QUICKSTART, "--set", "cluster.gpus_per_node=9"],
        "at most the node's 8 GPUs",
    ),
    "a precision that the GPU lacks": (
        ["run", QUICKSTART, "--set", "workload.precision=bf16"],
        "workload.precision: must be a precision that the v100-sxm2-16gb has (fp32, fp16), but got 'bf16'",
    ),
    "an empty list of nodes": (["scale", QUICKSTART, "--nodes", ""], "--nodes: must be whole"),
    "no file of calibration": (
        ["run", QUICKSTART, "--set", "calibration=none.json"],
        "scenarios/none.json: cannot be read: No such file or directory\n",
    ),
    "other traffic of no GPU": (
        ["run", QUICKSTART, "--set", "disturbance.background=[{source: 0, destination: 99}]"],
        "disturbance.background[0]: must name GPUs from 0 to 31, but got 99",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_use_is_one_clear_line_and_code_2(dpsim, wrong):
    args, message = WRONG[wrong]
    code, out, err = dpsim(*args)
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "words", [["run", QUICKSTART], ["microbench", "collectives"], ["backends"]]
)
def test_what_needs_torch_says_so_itself(dpsim, monkeypatch, words):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert (
        dpsim("validate", *words)[2] == f"dpsim: validate {words[0]} needs torch; "
        "install the extra from the checkout: pip install -e '.[validate]'\n"
    )


def commands(help_text):
    """The words that are listed below the options."""
    listed = help_text.partition("Show this message and exit.\n")[2]
    return re.findall(r"^  ([a-z][a-z-]*)\b", listed, re.MULTILINE)


def test_commands_are_listed_in_four_groups(dpsim):
    text = dpsim("--help")[1]
    headings = re.findall(r"^(\w.*):$", text.partition("Options:\n")[2], re.MULTILINE)
    # "More" has the commands that have no place in the table.
    assert [each for each in headings if each != "More"] == [
        "Predict",
        "Understand",
        "Calibrate and validate",
        "Show",
    ]
    assert commands(text)[:4] == ["init", "check", "run", "compare"]


def test_set_takes_the_short_paths_that_vary_takes(dpsim):
    answers = [
        dpsim("run", ROOT / "scenarios/quickstart.yaml", "--json", "--set", f"{path}=ssp")
        for path in ("sync.kind", "strategy.sync.kind")
    ]
    short, full = ({**json.loads(out), "provenance": None} for _, out, _ in answers)
    assert short == full
    assert short["staleness"]["clock_gap"]["max"] > 0  # as SSP has it, and the file's BSP has not
    code, _, err = dpsim("run", ROOT / "scenarios/quickstart.yaml", "--set", "snyc.kind=ssp")
    assert (code, "snyc: is not a known key" in err) == (2, True)


def test_a_collective_takes_fields_of_its_cluster_and_run(dpsim):
    def times(*sets):
        words = [word for each in sets for word in ("--set", each)]
        requested = ["collective", "--cluster", "dgx-a100", "--nodes", 2, "-b", "64M", "--json"]
        code, out, err = dpsim(*requested, *words)
        assert code == 0, err
        (row,) = json.loads(out)["rows"]
        return row["time_s"], row["library"]

    assert times("network.nics_per_node=1")[0] > 2 * times()[0]
    assert times("cluster.nodes=4") == times("nodes=4") != times()
    assert times("run.network_model=rounds")[1] == "ideal"
    _, _, err = dpsim("collective", "--cluster", "dgx-a100", "--set", "sync.kind=ssp")
    assert err == "dpsim: --set: must be a field of cluster or run, but got 'sync.kind=ssp'\n"
    code, _, err = dpsim("collective", "--cluster", "dgx-a100", "--set", "cluster.nodez=2")
    assert (code, "--set cluster.nodez=2: cluster.nodez: is not a known key" in err) == (2, True)


def test_every_commands_help_teaches_with_examples_a_line_each(dpsim):
    called = [[word] for word in commands(dpsim("--help")[1])]
    called = [
        [*words, below]
        for words in called
        for below in commands(dpsim(*words, "--help")[1]) or [""]
    ]
    assert len(called) > 20
    for words in ([word for word in each if word] for each in called):
        code, out, _ = dpsim(*words, "--help")
        examples = re.search(r"^  Examples?:\n((?:    .+\n)+)", out, re.MULTILINE)
        assert code == 0
        assert examples, words
        assert all(re.search(r"\b(dpsim|validate) ", line) for line in examples[1].splitlines()), (
            words
        )
        assert "Example: " not in out


def test_the_list_of_commands_cuts_no_sentence(dpsim):
    for group in ([], ["import"], ["explain"], ["validate"]):
        assert "..." not in dpsim(*group, "--help")[1].split("Show this message and exit.")[1]


def test_the_table_of_a_collective_says_how_far_it_may_be_off(dpsim):
    code, text, _ = dpsim("collective", "--cluster", "gcp-a3-high", "--nodes", 2, "-b", "1G")
    assert code == 0
    assert "90% within" in text
    assert text.splitlines()[-1].startswith("extrapolated: no machine with TCPX ran all_reduce")
    switch = ("--ranks", 8, "--bandwidth", "1 GB/s", "--algorithm", "ring", "-b", "1M")
    assert "within" not in dpsim("collective", *switch)[1]
