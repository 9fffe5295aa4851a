"""Slurm's topology.conf and topology.yaml become scenarios with their network."""

import json

import pytest
from imported import DATA

from dpsim.base.errors import DpsimError
from dpsim.hardware import links
from dpsim.imports.reading import ImportFileError
from dpsim.imports.slurm_files import expand_hosts
from dpsim.imports.slurm_topology import SlurmOptions, scenario_from_slurm
from dpsim.scenario import load_scenario

TREE, BLOCKS, YAML = "slurm-tree.conf", "slurm-blocks.conf", "slurm-topology.yaml"


def network(content, **options):
    """The ``cluster`` part of the scenario of a file's content."""
    if isinstance(content, str):
        content = content.encode()
    return scenario_from_slurm(content, "t.conf", SlurmOptions(**options)).plain()["cluster"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("tux[0-2,5],login", ["tux0", "tux1", "tux2", "tux5", "login"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("a[3]-ib", ["a3-ib"]),
    ],
)
def test_hostlists_are_those_of_slurm(text, names):
    assert expand_hosts(text) == names


@pytest.mark.parametrize(
    "text", ["", "a[", "a[3-1]", "a[x]", "a[]", "a[0-99999999]", "a]", "a[0-65535],b"]
)
def test_what_is_no_hostlist_is_refused(text):
    with pytest.raises(ImportFileError):
        expand_hosts(text)


def test_equal_leaves_below_the_same_spines_are_a_leaf_spine(data):
    found = network(data(TREE))
    assert found["nodes"] == 8
    assert found["network"] == {
        "fabric": "leaf-spine",
        "nodes_per_leaf": 4,
        "spines": 2,
        "oversubscription": 1.0,
    }


def test_link_speeds_count_where_they_have_a_unit(data):
    # 4 nodes of 8 cards of 400 Gbit/s, over two links up of 800 Gbit/s.
    assert network(data(TREE), speed_unit=1e9 / 8)["network"]["oversubscription"] == 8
    # The links up never carry more than the nodes send.
    assert network(data(TREE), speed_unit=1e12)["network"]["oversubscription"] == 1


def test_blocks_are_leaves_below_one_layer(data):
    found = network(data(BLOCKS))
    assert (found["nodes"], found["network"]["nodes_per_leaf"]) == (36, 18)
    assert (found["network"]["fabric"], found["network"]["spines"]) == ("leaf-spine", 1)


def test_three_levels_are_custom_and_each_link_carries_what_is_below(data):
    options = {"node": "dgx-a100", "nic": "HDR", "oversubscription": 2}
    edges = network(data(YAML), **options)["network"]["edges"]
    assert [edge["between"] for edge in edges[:5]] == [
        [f"node{node}/nic*", f"switch-rack{rack}"]
        for node, rack in enumerate((1, 1, 2, 2, 3))
    ]  # fmt: skip
    assert {edge["link"] for edge in edges[:5]} == {"ib-hdr"}
    up = {tuple(edge["between"]): edge["rate"] for edge in edges[5:]}
    a_node = 8 * links()["ib-hdr"].bandwidth * 8e-9  # in Gbit/s, the sum of its cards
    assert up["switch-hall1", "switch-top"] == f"{4 * a_node / 2:g} Gbit/s"
    assert up["switch-hall2", "switch-top"] == f"{1 * a_node / 2:g} Gbit/s"
    assert up["switch-rack2", "switch-hall1"] == f"{2 * a_node / 2:g} Gbit/s"


def test_a_single_switch_and_a_topology_by_name(data):
    assert network(data(TREE), switch="leaf2")["network"] == {"fabric": "single-switch"}
    assert network(data(YAML), topology="domains")["network"]["nodes_per_leaf"] == 2
    assert network(data(YAML), switch="hall1")["nodes"] == 4


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("SwitchName=a Nodes=n[1-2\n", "line 1: must be a hostlist"),
        ("SwitchName=a Nodes=n1\nNodeName=b\n", "line 2: must have SwitchName="),
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "line 2: switch 'a' must be named once"),
        ("SwitchName=a Nodes=n1\n\nSwitchName=b Nodes=n1\n", "line 3: node 'n1' must be of one"),
        ("SwitchName=a Switches=b\n", "line 1: switch 'a': must have switches that the file names"),
        (
            "SwitchName=a Switches=b Nodes=n1\nSwitchName=b Switches=a\n",
            "switch '[ab]' must not be below itself",
        ),
        ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\n", "must be one network"),
        ("SwitchName=a Nodes=n1 LinkSpeed=fast\n", "line 1: LinkSpeed: must be a number above 0"),
        ("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2\n", "line 2: must have switches or blocks"),
        ("BlockName=b Nodes=n2\nBlockSizes=0\n", "line 2: block sizes must be whole numbers"),
        ("SwitchName=a \\\n  Nodes=n1\nSwitchName b\n", "line 3: must be key=value pairs"),
        (
            "".join(f"SwitchName=s{n} Nodes=n[0-65000]\n" for n in range(99)),
            "line 17: must name at most 1,048,576 nodes and switches",
        ),
        ("SwitchName=a[0-65535]\nSwitchName=b\n", "line 2: must name at most 65,536 switches"),
        ("SwitchName=a\n", "must name 1 to 65,536 nodes, but names 0"),
        ("- topology: a\n  tree: 5\n", "must have a list switches"),
        ("- topology: a\n  flat: true\n", "topology a: is flat"),
        ("- topology: a\n", "topology a: must have one of tree, block and flat"),
        ("- topology: [\n", "must be topology.conf or YAML"),
        ("hello\n", "must be topology.conf"),
    ],
)
def test_a_file_that_cannot_be_used_says_where(text, rule):
    with pytest.raises(ImportFileError, match=rule):
        network(text)


@pytest.mark.parametrize(("of", "rule"), [("topology", "must have the topology"),
                                          ("switch", "must have the switch")])  # fmt: skip
def test_names_that_the_file_has_not_are_refused(data, of, rule):
    with pytest.raises(ImportFileError, match=rule):
        network(data(YAML), **{of: "elsewhere"})


def test_an_unknown_node_or_link_is_refused(data):
    for options in ({"node": "nowhere"}, {"nic": "string"}):
        with pytest.raises(DpsimError, match="must be a known"):
            network(data(YAML), **options)


@pytest.mark.parametrize(("name", "workers"), [(TREE, 64), (BLOCKS, 288), (YAML, 40)])
def test_each_scenario_runs(dpsim, tmp_path, name, workers):
    file = tmp_path / "s.yaml"
    code, out, _ = dpsim("import", "slurm-topology", DATA / name, "-o", file, "--model", "gpt2")
    assert (code, out) == (0, "")
    assert load_scenario(file).cluster.ranks == workers
    code, out, _ = dpsim("run", file, "--json", "--set", "run.steps=2")
    assert json.loads(out)["workers"] == workers


def test_the_json_is_that_of_imported_scenarios(dpsim):
    _, out, err = dpsim("import", "slurm-topology", DATA / TREE, "--json")
    answer = json.loads(out)
    assert list(answer) == ["schema_version", "kind", "scenario", "taken", "assumed", "ignored"]
    assert [row["key"] for row in answer["ignored"]] == ["LinkSpeed"]
    assert "assumed: cluster.node dgx-h100 (" in err


@pytest.mark.parametrize("unit", ["5", "0 Gbit/s", "fast"])
def test_a_speed_without_a_unit_is_refused(dpsim, unit):
    code, _, err = dpsim("import", "slurm-topology", DATA / TREE, "--speed-unit", unit)
    assert (code, err.count("\n")) == (2, 1)
    assert "--speed-unit: must be" in err
