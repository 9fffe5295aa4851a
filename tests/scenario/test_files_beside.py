"""Files that a scenario names are looked for beside it."""

import json
from pathlib import Path

import pytest

from dpsim import load_scenario
from dpsim.base.errors import ScenarioError

NODE = """
gpu: v100
devices: {gpu: 2, cpu: 1}
edges: [{between: [gpu*, cpu0], link: pcie3-x16}]
nic_slots: [cpu0]
nic_bus: pcie3-x16
nics: {link: 25GbE, count: 1}
"""
SCENARIO = (
    "name: x\ncluster: {nodes: 2, node: mine.yaml}\nworkload: {model: resnet50, batch_per_gpu: 1}\n"
)


def scenario(folder, node):
    (folder / "mine.yaml").write_text(node)
    (folder / "scenario.yaml").write_text(SCENARIO)
    return load_scenario(folder / "scenario.yaml")


def test_a_node_of_ones_own(tmp_path):
    loaded = scenario(tmp_path, NODE)
    assert loaded.cluster.node.name == "mine"
    assert loaded.cluster.ranks == 4


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (NODE.replace("25GbE", "25GbEE"), "nics.link"),
        (NODE.replace("nic_slots: [cpu0]", ""), "nic_slots"),
        ("- a list", "not a YAML mapping"),
        ("a: [", "not a YAML mapping"),
    ],
)
def test_a_node_file_that_is_wrong(tmp_path, node, message):
    with pytest.raises(
        ScenarioError, match=r"scenario.yaml:2:\d+: cluster.node: .*mine.yaml.*" + message
    ):
        scenario(tmp_path, node)


def test_a_node_file_that_is_not_there(tmp_path):
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    with pytest.raises(ScenarioError, match=r"mine\.yaml: cannot be read: No such file"):
        load_scenario(tmp_path / "scenario.yaml")


def test_a_profile_of_copies_at_no_rate_at_all_is_refused(tmp_path):
    profile = Path("validate/profiles/testbed.json").read_text()
    edited = json.loads(profile)
    edited["parameters"]["copy_rate"] = {"value": 1e-300, "unit": "B/s"}
    (tmp_path / "slow.json").write_text(json.dumps(edited))
    text = Path("scenarios/quickstart.yaml").read_text() + "calibration: slow.json\n"
    (tmp_path / "f.yaml").write_text(text)
    with pytest.raises(ScenarioError, match="copy_rate"):
        load_scenario(tmp_path / "f.yaml")
