"""``dpsim collective --nccl-tuner``: what a tuner plugin reads, beside what the model predicts."""

import json
import re
from itertools import pairwise

import pytest
from json_docs import section

from dpsim.network.libraries.nccl import NcclModel
from dpsim.studies.collective import named_cluster

TO_4_GIB = ("-b", "8", "-e", "4G")


def read(path):
    """The lines that hold, as the plugin reads them: at most 255 characters, # begins a comment."""
    lines = path.read_text().splitlines()
    assert max(map(len, lines)) < 256
    rows = [line.split(",") for line in lines if line and not line.startswith("#")]
    return [
        (operation, int(low), int(high), algorithm, protocol, *map(int, numbers))
        for operation, low, high, algorithm, protocol, *numbers in rows
    ]


@pytest.mark.parametrize(
    ("node", "nodes", "operation", "name"),
    [
        ("dgx-h100", 4, "all-reduce", "allreduce"),
        ("dgx-h100", 1, "all-reduce", "allreduce"),
        ("dgx-a100", 2, "all-gather", "allgather"),
        ("dgx1-v100", 2, "reduce-scatter", "reducescatter"),
        ("dgx-h100", 2, "broadcast", "broadcast"),
    ],
)
def test_every_size_has_one_line_in_the_plugin_s_words(
    dpsim, tmp_path, node, nodes, operation, name
):
    requested = ("--cluster", node, "--nodes", nodes, "--operation", operation, *TO_4_GIB)
    code, out, err = dpsim("collective", *requested, "--nccl-tuner", tmp_path / "tuner.csv")
    assert (code, err) == (0, f"wrote {tmp_path / 'tuner.csv'}\n")
    assert f"NCCL's {operation} of {8 * nodes} ranks on {nodes} nodes" in out
    rows = read(tmp_path / "tuner.csv")
    assert (rows[0][1], rows[-1][2]) == (8, 2**32)
    assert all(before[2] + 1 == after[1] for before, after in pairwise(rows))
    for found, _, _, algorithm, protocol, *numbers in rows:
        assert found == name
        assert algorithm in ("ring", "tree", "nvls", "nvls_tree")
        assert protocol in ("ll", "ll128", "simple")
        assert numbers == [-1, nodes, 8 * nodes]


@pytest.mark.parametrize("nodes", [1, 4])
def test_what_is_written_is_what_the_model_predicts_to_be_fastest(dpsim, tmp_path, nodes):
    requested = ("--cluster", "dgx-h100", "--nodes", nodes, *TO_4_GIB, "--json")
    _, out, _ = dpsim("collective", *requested, "--nccl-tuner", tmp_path / "tuner.csv")
    reported = json.loads(out)["rows"]
    model = NcclModel(named_cluster("dgx-h100", nodes)[0])
    lines = read(tmp_path / "tuner.csv")
    for line, row in zip(lines, reported, strict=True):
        explained = model.explain(row["smallest"])
        seconds = {rival.name: rival.predicted for rival in explained.rivals}
        written = f"{line[3].replace('nvls_tree', 'nvlstree')}/{line[4]}".lower()
        assert written == f"{row['algorithm']}/{row['protocol']}".lower()
        assert row["nccl"] == explained.chosen
        if row["gain"]:
            assert seconds[f"{row['algorithm']}/{row['protocol']}"] == min(seconds.values())
            gain = 1 - min(seconds.values()) / seconds[explained.chosen]
            assert 0.05 <= gain < row["gain"] + 1e-9
        else:
            # What gains less than 5 % stays NCCL's own.
            assert explained.chosen == f"{row['algorithm']}/{row['protocol']}"
            assert min(seconds.values()) > 0.95 * seconds[explained.chosen]
    assert any(row["gain"] for row in reported)


def test_its_json_is_documented(dpsim, tmp_path):
    path = tmp_path / "tuner.csv"
    _, out, _ = dpsim("collective", "--cluster", "dgx-h100", "--nccl-tuner", path, "--json")
    reported = json.loads(out)
    text = section("dpsim collective --nccl-tuner")
    assert all(f"`{key}`" in text for key in [*reported, *reported["rows"][0]][2:])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--ranks", "4"), r"--nccl-tuner: must be given with --cluster, but got no cluster"),
        (("--cluster", "dgx-h100", "--operation", "all-to-all"), r".*one way"),
        (("--cluster", "dgx-h100", "--operation", "gather"), r".*one that library nccl models"),
        (("--cluster", "dgx-h100", "-b", "0"), r"-b: must be above 0, but got '0'"),
    ],
)
def test_what_cannot_be_is_one_line(dpsim, tmp_path, options, message):
    code, out, err = dpsim("collective", *options, "--nccl-tuner", tmp_path / "tuner.csv")
    assert (code, out) == (2, "")
    assert re.match(f"dpsim: {message}", err)
    assert not (tmp_path / "tuner.csv").exists()
