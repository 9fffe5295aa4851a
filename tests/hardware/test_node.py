from collections import Counter

import pytest
from pydantic import TypeAdapter, ValidationError

from dpsim.hardware import LinkRef, Node, NodeRef, gpus, links, nodes

PAIR = {
    "gpu": "p40",
    "devices": {"gpu": 2, "cpu": 1},
    "edges": [{"between": ["gpu*", "cpu0"], "link": "pcie3-x16"}],
    "nic_slots": ["cpu0"],
    "nic_bus": "pcie3-x16",
    "nics": {"link": "10GbE"},
}


def nvlinks(node):
    """How many NVLinks each GPU has, by name."""
    degrees = Counter()
    for a, b, link, count in node.expand_edges():
        if link.name.startswith("nvlink"):
            degrees.update({device: count for device in (a, b) if device.startswith("gpu")})
    return degrees


@pytest.mark.parametrize(
    ("name", "count", "gigabytes_per_s"),
    [("dgx1-p100", 4, 80), ("dgx1-v100", 6, 150), ("dgx-a100", 12, 300), ("dgx-h100", 18, 450)],
)
def test_nvlink_of_each_gpu_in_one_direction(name, count, gigabytes_per_s):
    node = nodes()[name]
    assert nvlinks(node) == {f"gpu{i}": count for i in range(8)}
    total = sum(
        link.rate.value * n
        for a, b, link, n in node.expand_edges()
        if "gpu3" in (a, b) and link.name.startswith("nvlink")
    )
    assert total == gigabytes_per_s * 1e9


HYBRID_CUBE_MESH = {  # of nvidia-smi topo -m on a DGX-1V
    "01": 1, "02": 1, "03": 2, "04": 2, "12": 2, "13": 1, "15": 2, "23": 2,
    "26": 1, "37": 1, "45": 1, "46": 1, "47": 2, "56": 2, "57": 1, "67": 2,
}  # fmt: skip


def test_hybrid_cube_mesh_edges():
    def mesh(name):
        edges = nodes()[name].expand_edges()
        return {
            a[-1] + b[-1]: count for a, b, link, count in edges if link.name.startswith("nvlink")
        }

    assert mesh("dgx1-v100") == HYBRID_CUBE_MESH
    assert mesh("dgx1-p100") == dict.fromkeys(HYBRID_CUBE_MESH, 1)


@pytest.mark.parametrize(
    ("name", "devices", "nics"),
    [
        ("dgx1-p100", {"gpu": 8, "pcie-switch": 4, "cpu": 2}, ("ib-edr", 4)),
        ("dgx1-v100", {"gpu": 8, "pcie-switch": 4, "cpu": 2}, ("ib-edr", 4)),
        ("dgx-a100", {"gpu": 8, "nvswitch": 1, "pcie-switch": 4, "cpu": 2}, ("ib-hdr", 8)),
        ("dgx-h100", {"gpu": 8, "nvswitch": 1, "pcie-switch": 8, "cpu": 2}, ("ib-ndr", 8)),
        ("pcie-8gpu", {"gpu": 8, "pcie-switch": 4, "cpu": 2}, ("ethernet-10g", 1)),
        ("single-gpu", {"gpu": 1, "cpu": 1}, ("ethernet-25g", 1)),
    ],
)
def test_devices_and_network_cards(name, devices, nics):
    node = nodes()[name]
    assert node.devices == devices
    assert node.gpus == devices["gpu"]
    assert (node.nics.link.name, node.nics.count) == nics


@pytest.mark.parametrize("name", ["dgx1-p100", "dgx1-v100", "dgx-a100", "dgx-h100", "pcie-8gpu"])
def test_each_socket_has_four_gpus_below_it(name):
    node = nodes()[name]
    gpu_names = [f"gpu{i}" for i in range(8)]
    tree = [edge for edge in node.expand_edges() if not edge[2].name.startswith("nvlink")]
    parent = {a: b for a, b, _, _ in tree if b != "cpu1" or a != "cpu0"}
    assert [parent[parent[gpu]] for gpu in gpu_names] == ["cpu0"] * 4 + ["cpu1"] * 4


def test_each_gpu_of_a_dgx_shares_a_switch_with_a_network_card():
    for name in ("dgx1-v100", "dgx-a100", "dgx-h100"):
        node = nodes()[name]
        slots = {slot for _, slot, _, _ in node.nic_edges()}
        switches = {
            b
            for a, b, _, _ in node.expand_edges()
            if a.startswith("gpu") and b.startswith("pcie-switch")
        }
        assert slots == switches


def test_a_pattern_joins_each_match_to_each_match_once():
    mesh = Node.model_validate(PAIR | {"devices": {"gpu": 3, "cpu": 1}, "edges": [
        {"between": ["gpu*", "gpu[0-9]"], "link": "nvlink1", "count": 2},
        {"between": ["gpu*", "cpu0"], "link": {"rate": "5 GB/s", "latency": 0}},
    ]})  # fmt: skip
    assert [(a, b, link.name, count) for a, b, link, count in mesh.expand_edges()] == [
        ("gpu0", "gpu1", "nvlink1", 2),
        ("gpu0", "gpu2", "nvlink1", 2),
        ("gpu1", "gpu2", "nvlink1", 2),
        ("gpu0", "cpu0", "inline", 1),
        ("gpu1", "cpu0", "inline", 1),
        ("gpu2", "cpu0", "inline", 1),
    ]


def test_a_name_is_not_a_prefix():
    node = Node.model_validate(PAIR | {"devices": {"gpu": 12, "cpu": 1}})
    names = {a for a, _, _, _ in node.expand_edges()}
    assert {"gpu1", "gpu10", "gpu11"} < names
    with pytest.raises(ValidationError, match="nothing joins gpu2, gpu3"):
        Node.model_validate(PAIR | {"devices": {"gpu": 12, "cpu": 1}, "edges": [
            {"between": ["gpu0", "cpu0"], "link": "nvlink1"}, {"between": ["gpu1", "cpu0"], "link": "nvlink1"},
        ]})  # fmt: skip


@pytest.mark.parametrize(
    ("count", "slots"),
    [
        (1, [0]),
        (2, [0, 2]),
        (4, [0, 1, 2, 3]),
        (5, [0, 1, 2, 3, 0]),
        (8, [0, 1, 2, 3, 0, 1, 2, 3]),
        (None, [0, 1, 2, 3]),
        (0, []),
    ],
)
def test_few_cards_are_spread_and_many_go_round(count, slots):
    edges = nodes()["dgx1-v100"].nic_edges(count)
    assert [(nic, slot, n) for nic, slot, _, n in edges] == [
        (f"nic{i}", f"pcie-switch{slot}", 1) for i, slot in enumerate(slots)
    ]
    assert all(bus is links()["pcie3-x16"] for _, _, bus, _ in edges)


def test_capacity_is_of_a_kind():
    node = nodes()["dgx1-v100"]
    assert node.capacity("cpu1") == 76.8e9
    assert node.capacity("gpu1") is None


def test_the_gpu_can_be_exchanged():
    node = nodes()["pcie-8gpu"].model_copy(update={"gpu": gpus()["P40"]})
    assert (repr(node), node.expand_edges()) == (
        "<Node pcie-8gpu: 8 x p40>",
        nodes()["pcie-8gpu"].expand_edges(),
    )


def test_a_reference_is_a_name_or_a_description():
    assert TypeAdapter(NodeRef).validate_python("DGX-A100") is nodes()["dgx-a100"]
    assert TypeAdapter(NodeRef).validate_python(PAIR).gpu is gpus()["p40"]
    assert (
        TypeAdapter(LinkRef).validate_python({"rate": "1 GB/s", "latency": "1 us"}).bandwidth == 1e9
    )


def test_the_schema_of_a_reference_allows_both():
    schema = TypeAdapter(LinkRef).json_schema()
    assert {"type": "string", "examples": [*links()]} in schema["anyOf"]
    assert len(schema["anyOf"]) == 2


BROKEN = {
    "unknown gpu": (
        {"gpu": "p41"},
        "gpu",
        "must be a known GPU, but got 'p41' (did you mean 'p40'?)",
    ),
    "unknown link": (
        {"nic_bus": "pcie3-x61"},
        "nic_bus",
        "must be a known link, but got 'pcie3-x61' (did you mean 'pcie3-x16'?)",
    ),
    "unknown device in an edge": (
        {"edges": [{"between": ["gpu*", "cpus0"], "link": "pcie3-x16"}]},
        "",
        "must be a known device of the node, but got 'cpus0' (did you mean 'cpu0'?)",
    ),
    "unknown slot": (
        {"nic_slots": ["cpu7"]},
        "",
        "must be a known device of the node, but got 'cpu7' (did you mean 'cpu0'?)",
    ),
    "no slot": ({"nic_slots": []}, "nic_slots", "at least 1 item"),
    "not connected": (
        {"edges": [{"between": ["gpu0", "cpu0"], "link": "pcie3-x16"}]},
        "",
        "edges must connect every device, but nothing joins gpu1 to gpu0",
    ),
    "joined twice": (
        {
            "edges": [
                {"between": ["gpu*", "cpu*"], "link": "pcie3-x16"},
                {"between": ["cpu0", "gpu1"], "link": "pcie3-x16"},
            ]
        },
        "",
        "edges must join a pair of devices once (count says how many links), but cpu0 and gpu1 "
        "are joined twice",
    ),
    "joined to itself": (
        {"edges": [*PAIR["edges"], {"between": ["gpu0", "gpu0"], "link": "nvlink1"}]},
        "",
        "edges must join two devices, but 'gpu0' and 'gpu0' are the same one",
    ),
    "no gpu": ({"devices": {"cpu": 1}}, "", "devices must have at least 1 gpu, but got none"),
    "a kind that ends in a digit": (
        {"devices": {"gpu": 2, "cpu": 1, "x86": 1}},
        "",
        "but got 'x86'",
    ),
    "a network card as device": ({"devices": {"gpu": 2, "cpu": 1, "nic": 1}}, "", "but got 'nic'"),
    "no device of a kind": (
        {"devices": {"gpu": 2, "cpu": 0}},
        "devices.cpu",
        "greater than or equal to 1",
    ),
    "far too many": (
        {"devices": {"gpu": 10**9, "cpu": 1}},
        "devices.gpu",
        "less than or equal to 1024",
    ),
    "capacity of nothing": (
        {"capacities": {"cpux": "60 GB/s"}},
        "",
        "must be a known kind of device of the node, but got 'cpux' (did you mean 'cpu'?)",
    ),
    "no link": (
        {"edges": [{"between": ["gpu*", "cpu0"], "link": "pcie3-x16", "count": 0}]},
        "edges.0.count",
        "greater than 0",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_nodes_are_refused(case):
    change, place, message = BROKEN[case]
    with pytest.raises(ValidationError) as caught:
        Node.model_validate(PAIR | change)
    (error,) = caught.value.errors()
    assert ".".join(map(str, error["loc"])) == place
    assert message in error["msg"]


@pytest.mark.parametrize(
    ("name", "gpu", "gigabits"),
    [
        ("aws-p4d", "a100-sxm-40gb", 400),
        ("aws-p4de", "a100-sxm-80gb", 400),
        ("aws-p5", "h100-sxm", 3200),
        ("aws-g4dn", "t4", 50),
        ("azure-nd-a100-v4", "a100-sxm-40gb", 1600),
        ("azure-ndm-a100-v4", "a100-sxm-80gb", 1600),
        ("azure-nd-h100-v5", "h100-sxm", 3200),
        ("azure-nd-h200-v5", "h200", 3200),
        ("gcp-a3-mega", "h100-sxm", 1600),
        ("oci-bm-gpu4-8", "a100-sxm-40gb", 1600),
        ("oci-bm-gpu-a100-v2-8", "a100-sxm-80gb", 1600),
        ("oci-bm-gpu-h100-8", "h100-sxm", 3200),
        ("tpu-v3", "tpu-v3", 656),
        ("aws-p5e", "h200", 3200),
        ("aws-p5en", "h200", 3200),
        ("aws-p6-b200", "b200", 3200),
        ("aws-p6-b300", "b300", 6400),
        ("gcp-a2-high", "a100-sxm-40gb", 100),
        ("gcp-a2-ultra", "a100-sxm-80gb", 100),
        ("gcp-a3-high", "h100-sxm", 800),
        ("gcp-a3-ultra", "h200", 3200),
        ("gcp-a4", "b200", 3200),
        ("oci-bm-gpu-h200-8", "h200", 3200),
        ("oci-bm-gpu-b200-8", "b200", 3200),
        ("dgx-h200", "h200", 3200),
        ("dgx-b200", "b200", 3200),
        ("dgx-b300", "b300", 6400),
        ("gb200-nvl72", "gb200", 72 * 400),
        ("gb300-nvl72", "gb300", 72 * 800),
        ("tpu-v4", "tpu-v4", 400),
        ("aws-g4dn-metal", "t4", 100),
        ("aws-g5-12xlarge", "a10g", 40),
        ("aws-g5-48xlarge", "a10g", 100),
        ("aws-g6-48xlarge", "l4", 100),
        ("aws-g6e-48xlarge", "l40s", 400),
        ("aws-p3-16xlarge", "v100-sxm2-16gb", 25),
        ("aws-p3dn", "v100-sxm2-32gb", 100),
        ("gcp-g2-96", "l4", 100),
        ("gcp-g4-384", "rtx-pro-6000", 400),
        ("azure-nd-mi300x-v5", "mi300x", 3200),
        ("oci-bm-gpu-mi300x-8", "mi300x", 3200),
        ("frontier-mi250x", "mi250x", 800),
        ("alps-gh200", "gh200", 800),
        ("tpu-v5e", "tpu-v5e", 400),
        ("tpu-v5p", "tpu-v5p", 800),
        ("tpu-v6e", "tpu-v6e", 800),
    ],
)
def test_gpus_and_network_of_machines_for_hire(name, gpu, gigabits):
    node = nodes()[name]
    assert node.gpu.name == gpu
    assert node.nics.count * node.nics.link.rate.value * 8e-9 == pytest.approx(gigabits)


@pytest.mark.parametrize("name", nodes())
def test_nvswitches_reduce_from_the_fourth_generation_of_nvlink_on(name):
    node = nodes()[name]
    reduces = any(
        link.name in ("nvlink4", "nvlink5") and "nvswitch0" in (a, b)
        for a, b, link, _ in node.expand_edges()
    )
    assert node.in_network_reduction == (("nvswitch",) if reduces else ())


def test_only_kinds_of_devices_that_are_there_reduce():
    with pytest.raises(
        ValidationError, match="must be a known kind of device of the node, but got 'nvswitch'"
    ):
        Node.model_validate(PAIR | {"in_network_reduction": ["nvswitch"]})


def test_devices_are_counted_over_all_kinds():
    with pytest.raises(
        ValidationError, match="devices must be at most 1,024 in all, but got 1,538"
    ):
        Node.model_validate(PAIR | {"devices": {"gpu": 513, "cpu": 1, "switch": 1024}})


CHAIN = {
    "devices": {"gpu": 3, "cpu": 1},
    "edges": [{"between": ["gpu0", "gpu[12]"], "link": "nvlink2"}],
}


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        ({"nic_slots": ["gpu0"]}, "gpu1 to gpu0"),
        (
            {
                **CHAIN,
                "edges": [*CHAIN["edges"], {"between": ["gpu0", "cpu0"], "link": "pcie3-x16"}],
            },
            "gpu1 to gpu2",
        ),
        (
            {
                **CHAIN,
                "devices": {"gpu": 2, "cpu": 1},
                "edges": [
                    {"between": ["gpu0", "gpu1"], "link": "nvlink2"},
                    {"between": ["gpu0", "cpu0"], "link": "pcie3-x16"},
                ],
            },
            "gpu1 to cpu0",
        ),
    ],
)
def test_gpus_forward_nothing(changes, ends):
    with pytest.raises(
        ValidationError,
        match=(
            f"edges must leave a path from {ends} that passes through no other GPU, but there is "
            "none"
        ),
    ):
        Node.model_validate(PAIR | changes)


def test_a_card_may_stand_on_the_only_gpu():
    single = {"devices": {"gpu": 1, "cpu": 1}, "nic_slots": ["gpu0"]}
    assert Node.model_validate(PAIR | single).gpus == 1


@pytest.mark.parametrize("name", [name for name in nodes() if nodes()[name].nics.burst])
def test_what_a_cloud_lends_is_more_than_what_it_sustains(name):
    cards = nodes()[name].nics
    assert cards.burst.value > 1.2 * cards.link.rate.value
