"""`dpsim import`: files in, files or stdout out, one line for what is wrong."""

import json
import re

import pytest
from imported import DATA
from json_docs import documented_keys

from dpsim.hardware import Node
from dpsim.hardware.calibration import load_profile

COMMANDS = {
    "nvidia-topo": "dgx1-v100.topo.txt",
    "nccl-topo": "dgx-a100.xml",
    "nccl-tests": "all-reduce-4-v100-old.log",
    "slurm-topology": "slurm-tree.conf",
}


def node_in(text):
    from ruamel.yaml import YAML

    return Node.model_validate(YAML(typ="safe", pure=True).load(text))


@pytest.mark.parametrize("command", ["nvidia-topo", "nccl-topo"])
def test_a_node_goes_to_stdout_or_to_a_file_and_assumptions_to_stderr(dpsim, tmp_path, command):
    code, out, err = dpsim("import", command, DATA / COMMANDS[command])
    assert code == 0
    assert node_in(out).gpus == 8
    assert re.search(r"^assumed: .* usual with", err, re.MULTILINE)
    assert re.search(r"^taken: 8 gpu, ", err, re.MULTILINE)
    code, nothing, err = dpsim(
        "import", command, DATA / COMMANDS[command], "-o", tmp_path / "node.yaml"
    )
    assert (code, nothing) == (0, "")
    assert (tmp_path / "node.yaml").read_text() == out
    assert f"wrote {tmp_path / 'node.yaml'}" in err
    code, out, _ = dpsim("import", command, DATA / COMMANDS[command], "--json")
    answer = json.loads(out)
    assert list(answer) == ["schema_version", "kind", "node", "assumptions"]
    assert Node.model_validate(answer["node"]) == node_in((tmp_path / "node.yaml").read_text())


def test_an_imported_node_runs_in_a_scenario(dpsim, tmp_path):
    _, text, _ = dpsim("import", "nvidia-topo", DATA / "dgx1-v100.topo.txt", "--nic", "25GbE")
    inside = "\n".join(f"    {line}" for line in text.splitlines())
    workload = "workload: {model: resnet50, batch_per_gpu: 8}\nrun: {steps: 2, warmup: 0}\n"
    (tmp_path / "s.yaml").write_text(
        f"name: imported\ncluster:\n  nodes: 2\n  node:\n{inside}\n{workload}"
    )
    code, out, err = dpsim("run", tmp_path / "s.yaml", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["workers"] == 16


def test_a_profile_goes_to_stdout_or_to_a_file(dpsim, tmp_path):
    code, out, err = dpsim("import", "nccl-tests", DATA / COMMANDS["nccl-tests"])
    assert code == 0
    assert json.loads(out)["name"] == "all-reduce-4-v100-old"
    assert "on these same rows time_s = max(floor, alpha" in err
    dpsim("import", "nccl-tests", DATA / COMMANDS["nccl-tests"], "-o", tmp_path / "p.json")
    assert load_profile(tmp_path / "p.json").name == "all-reduce-4-v100-old"


@pytest.mark.parametrize("command", COMMANDS)
def test_files_that_cannot_be_used_are_one_line_and_code_2(dpsim, tmp_path, command):
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "prose").write_text("once upon a time\n")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(2**24 + 1)
    for name, message in [
        ("none", "cannot be read: No such file"),
        (".", "cannot be read: Is a directory"),
        ("empty", "must not be empty"),
        ("prose", "must "),
        ("huge", "must be at most 16,777,216 bytes"),
    ]:
        code, out, err = dpsim("import", command, tmp_path / name)
        assert (code, out) == (2, "")
        assert err.startswith(f"dpsim: {tmp_path / name}:")
        assert message in err
        assert err.count("\n") == 1


def test_an_error_names_file_and_line(dpsim, tmp_path):
    (tmp_path / "cut.txt").write_text("\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\n")
    code, _, err = dpsim("import", "nvidia-topo", tmp_path / "cut.txt")
    assert (code, err) == (
        2,
        f"dpsim: {tmp_path / 'cut.txt'}:3: the row of GPU1 must have 2 cells, but got 1\n",
    )


def test_output_into_a_folder_that_is_not_there_is_an_error(dpsim, tmp_path):
    code, _, err = dpsim(
        "import", "nccl-topo", DATA / "dgx-a100.xml", "-o", tmp_path / "none" / "node.yaml"
    )
    assert code == 2
    assert f"the folder {tmp_path / 'none'} must exist, but does not" in err


def test_the_profile_has_the_documented_keys(dpsim):
    _, out, _ = dpsim("import", "nccl-tests", DATA / COMMANDS["nccl-tests"])
    keys = documented_keys("dpsim import nccl-tests")
    assert list(json.loads(out)) == ["schema_version", *keys]
