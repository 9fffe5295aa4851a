"""What ibnetdiscover prints becomes a scenario with that fabric."""

import json

import pytest
from imported import DATA

from dpsim.hardware import links
from dpsim.imports import ImportFileError, NetworkOptions, scenario_from_ibnetdiscover

FILE = "ibnetdiscover.txt"
LEAVES = [f"switch-s-000000000000aaa{number}" for number in (1, 2)]
SPINE = "switch-s-000000000000bbb1"
SWITCH = 'Switch 8 "S-0a" # "one" base port 0 lid 1 lmc 0\n'


def cluster(content, hosts=None):
    """The ``cluster`` part of the scenario of a file's content."""
    if isinstance(content, str):
        content = content.encode()
    return scenario_from_ibnetdiscover(content, "f.txt", NetworkOptions(), hosts).plain()["cluster"]


def card(port, guid, name, speed="4xHDR"):
    """A line of a switch: the card on one of its ports."""
    return f'[{port}] "H-{guid}"[1]({guid}) # "{name}" lid 5 {speed}\n'


def test_hosts_are_nodes_in_the_order_of_their_numbers(data):
    found = cluster(data(FILE))
    assert (found["nodes"], found["network"]["nics_per_node"]) == (4, 2)
    ends = [edge["between"] for edge in found["network"]["edges"][:8]]
    assert ends == [
        [f"node{node}/nic{nic}", LEAVES[node // 2]] for node in range(4) for nic in range(2)
    ]


def test_widths_and_speeds_are_links_of_the_catalogue_or_rates():
    found = cluster(
        SWITCH + card(1, "b1", "n1 mlx5_0") + card(2, "b2", "n2 mlx5_0", "2xHDR")
        + card(3, "b3", "n3 mlx5_0", "4xQDR")
    )  # fmt: skip
    first, second, third = found["network"]["edges"]
    assert first["link"] == "ib-hdr"
    part = links()["ib-hdr"].achievable.value
    assert second["rate"] == f"{100 * part:g} Gbit/s"
    assert third["rate"] == f"{32 * part:g} Gbit/s"  # 40 Gbit/s, of which 8 in 10 bits are data


def test_links_between_two_switches_are_one_of_their_sum(data):
    up = cluster(data(FILE))["network"]["edges"][8:]
    part = links()["ib-hdr"].achievable.value
    assert up == [
        {"between": [leaf, SPINE], "rate": f"{2 * 200 * part:g} Gbit/s", "latency": "0.5 us"}
        for leaf in LEAVES
    ]


def test_each_link_counts_once_though_both_ends_list_it(data):
    listed_by_switches = data(FILE).decode().split("\nvendid=0x2c9\ndevid=0x101b")[0]
    assert cluster(listed_by_switches) == cluster(data(FILE))


def test_storage_and_switches_that_reduce_are_no_nodes(data):
    draft = scenario_from_ibnetdiscover(data(FILE), "f.txt", NetworkOptions())
    assert [key for key, _ in draft.ignored] == ["1 hosts, store1 among them"]
    assert cluster(data(FILE), "store1")["nodes"] == 1
    assert cluster(data(FILE), "gpu[10-11]")["nodes"] == 2


def test_cards_without_a_host_s_name_are_nodes_of_their_own():
    name = "MT25408 ConnectX Mellanox Technologies"
    draft = scenario_from_ibnetdiscover(
        (SWITCH + card(1, "b1", name) + card(2, "b2", name)).encode(), "f.txt", NetworkOptions()
    )
    assert draft.plain()["cluster"]["nodes"] == 2
    assert draft.ignored[0][0] == "2 cards whose description names no host"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("hello\n", "must be what ibnetdiscover prints"),
        ("Switch 8 # one\n", "line 1: must have a device's GUID in quotes"),
        (card(1, "b1", "n1 mlx5_0"), "line 1: must be a link of a device"),
        (SWITCH + "[1] nothing\n", "line 2: must be a link of a device"),
        (SWITCH + card(1, "b1", "n1 4xHDR", ""), "line 2: must end with width and speed"),
        (SWITCH + card(1, "b1", "n1 mlx5_0", "4xWARP"), "line 2: must end with width and speed"),
        (SWITCH + '[1] "S-0a"[1] # "one" lid 1 4xHDR\n', "line 2: must join two ports"),
        (SWITCH + '[1] "S-0b"[1] # "two" lid 1 4xHDR\n', "must have cards of hosts"),
        (
            SWITCH + card(1, "b1", "n1 mlx5_0") + SWITCH.replace("0a", "0b")
            + card(1, "b2", "n2 mlx5_0"),
            "must be one network, but nothing joins node0/nic0 and port 1 of h-b2",
        ),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_says_where(text, rule):
    with pytest.raises(ImportFileError, match=rule):
        cluster(text)


@pytest.mark.parametrize(
    ("hosts", "rule"),
    [
        ("gpu99", "must have the host 'gpu99'"),
        ("gpu9,store1", r"must be hosts of equally many cards, but they have \[1, 2\]"),
    ],
)
def test_hosts_that_cannot_be_nodes_are_refused(data, hosts, rule):
    with pytest.raises(ImportFileError, match=rule):
        cluster(data(FILE), hosts)


def test_the_scenario_runs_over_these_links(dpsim, tmp_path):
    file = tmp_path / "s.yaml"
    code, out, err = dpsim(
        "import", "ibnetdiscover", DATA / FILE, "-o", file, "--node", "dgx-a100", "--model", "gpt2"
    )
    assert (code, out) == (0, "")
    assert f"wrote {file}" in err
    _, out, _ = dpsim("topology", file, "--json", "--top", "1000")
    assert f"{LEAVES[0]}->{SPINE}" in out
    code, out, _ = dpsim("run", file, "--json", "--set", "run.steps=2")
    assert json.loads(out)["workers"] == 32


@pytest.mark.parametrize("hosts", [",", ",,", ""])
def test_hosts_that_name_none_are_one_line(dpsim, hosts):
    code, _, err = dpsim("import", "ibnetdiscover", DATA / "ibnetdiscover.txt", "--hosts", hosts)
    assert (code, err.count("\n")) == (2, 1)
    assert "must be a hostlist such as tux[0-3,12], but got" in err
