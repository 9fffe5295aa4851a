"""NCCL's topology file: what is read, what is built, what is refused."""

import pytest
from imported import assert_same_machine, joined

from dpsim.hardware import nodes
from dpsim.imports.nccl_topo import node_from_nccl_topo
from dpsim.imports.options import NodeOptions
from dpsim.imports.reading import ImportFileError


def draft(content, **options):
    return node_from_nccl_topo(content, NodeOptions(**options))


@pytest.mark.parametrize("name", ["dgx1-v100", "dgx-a100", "hgx-h100"])
def test_a_known_machine_is_the_one_of_the_catalogue(data, name):
    assert_same_machine(draft(data(f"{name}.xml")).to_node(), nodes()[name])


@pytest.mark.parametrize("name", ["dgx1-v100", "dgx-a100", "hgx-h100"])
def test_both_formats_of_one_machine_give_the_same_node(data, name):
    from dpsim.imports.nvidia_topo import node_from_nvidia_topo

    matrix = node_from_nvidia_topo(data(f"{name}.topo.txt"), NodeOptions())
    assert joined(matrix.to_node()) == joined(draft(data(f"{name}.xml")).to_node())


def test_rare_links_are_written_out_with_their_rate(data):
    node = draft(data("cloud-t4.xml")).to_node()
    links = {frozenset((a, b)): link for a, b, link, _ in node.expand_edges()}
    assert links[frozenset(("gpu0", "cpu0"))].name == "pcie3-x8"
    assert links[frozenset(("gpu1", "cpu0"))].rate.value == pytest.approx(
        8e9 * 4 / 8 * 128 / 130, rel=1e-5
    )
    assert node.nics.link.rate.value == pytest.approx(15e9 / 8)
    assert node.gpu.name == "t4"


def one(
    gpu='<gpu dev="0" sm="80" rank="0"/>',
    pci='device="" link_speed="16.0 GT/s PCIe" link_width="16"',
    net="",
):
    inside = f'<pci busid="0000:07:00.0" class="0x030200" {pci}>{gpu}</pci>{net}'
    return (
        f'<system version="1">\n<cpu numaid="0" arch="x86_64">\n{inside}\n</cpu></system>'.encode()
    )


def card(name, speed, pci_class="0x020000"):
    net = f'<net name="{name}" dev="0" speed="{speed}"/>'
    return f'<pci busid="0000:0c:00.0" class="{pci_class}" link_speed="16.0 GT/s PCIe" link_width="16"><nic>{net}</nic></pci>'


@pytest.mark.parametrize(
    ("name", "speed", "pci_class", "link"),
    [
        ("mlx5_0", 100000, "0x020700", "ib-edr"),
        ("mlx5_0", 200000, "0x020700", "ib-hdr"),
        ("mlx5_0", 100000, "0x020000", "roce-100g"),
        ("eth0", 100000, "0x020000", "ethernet-100g"),
        ("ens5", 25000, "0x020000", "ethernet-25g"),
    ],
)
def test_a_cards_class_name_and_speed_give_its_link(name, speed, pci_class, link):
    assert draft(one(net=card(name, speed, pci_class))).nic.value == link


@pytest.mark.parametrize(
    ("sm", "links", "gpu"),
    [
        (60, "", "p100-pcie"),
        (70, "", "v100-pcie-16gb"),
        (80, "", "a100-pcie-40gb"),
        (90, "n", "h100-sxm"),
        (75, "", "t4"),
    ],
)
def test_compute_capability_gives_the_gpu_where_the_device_is_not_known(sm, links, gpu):
    nvlink = '<nvlink target="0000:c4:00.0" count="18" tclass="0x068000"/>' if links else ""
    made = draft(one(gpu=f'<gpu dev="0" sm="{sm}" rank="0">{nvlink}</gpu>'))
    assert made.gpu.value == gpu
    assert any("compute capability" in output for output in made.assumptions())


def test_a_file_that_does_not_say_its_links_gets_usual_ones():
    made = draft(one(pci='link_speed="" link_width=""'))
    assert made.edges == [("gpu0", "cpu0", "pcie4-x16", 1)]
    assert (
        "pcie4-x16: assumed where the file does not say link_speed and link_width"
        in made.assumptions()
    )


def test_a_slow_bridge_to_one_gpu_is_that_gpus_link():
    gpu = '<gpu dev="0" sm="80" rank="0"/>'
    inner = f'<pci busid="0000:07:00.0" class="0x030200" link_speed="16.0 GT/s" link_width="16">{gpu}</pci>'
    bridge = f'<pci busid="0000:06:00.0" class="0x060400" link_speed="8.0 GT/s" link_width="8">{inner}</pci>'
    assert draft(f'<system><cpu numaid="0">{bridge}</cpu></system>'.encode()).edges == [
        ("gpu0", "cpu0", "pcie3-x8", 1)
    ]


def test_nvlinks_to_unlisted_gpus_are_left_out_and_reported():
    made = draft(
        one(
            gpu='<gpu dev="0" sm="70" rank="0"><nvlink target="0000:99:00.0" count="2" tclass="0x030200"/></gpu>'
        )
    )
    assert "ignored: 2 NVLinks to devices that the file does not list" in made.assumptions()


def test_names_from_the_file_cannot_break_the_yaml():
    name = "a&quot;}]&#10;- # &#233;"
    node = draft(one(net=card(name, 12345)))
    assert node.to_node().nics.link.rate.value == pytest.approx(12.345e9 / 8)
    assert "gpu: a100" in node.to_yaml()


BOMB = b'<?xml version="1.0"?>\n<!DOCTYPE s [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>\n<system>&b;</system>'
BAD = {
    "not XML": (b"GPU0 GPU1\n", "line 1: must be XML, but: "),
    "cut off": (
        b"<system>\n<cpu numaid='0'>\n",
        "line 3: must be XML, but: no element found|unclosed|mismatched",
    ),
    "wrong root": (
        b"<graphs></graphs>",
        "line 1: .* outermost element is <system>, but got <graphs>",
    ),
    "bomb": (BOMB, "line 2: must not have a DOCTYPE"),
    "deep": (
        b"<system>" + b"<pci>" * 100 + b"</pci>" * 100 + b"</system>",
        "line 1: elements must be nested at most 64 deep",
    ),
    "no GPUs": (b"<system><cpu numaid='0'/></system>", "must have at least 1 <gpu>, but has none"),
    "no dev": (one(gpu='<gpu sm="80"/>'), "line 3: <gpu> must have the attribute 'dev'"),
    "bad dev": (
        one(gpu='<gpu dev="x" sm="80"/>'),
        "line 3: <gpu> dev must be a number from 0 to .*, but got 'x'",
    ),
    "unknown sm": (
        one(gpu='<gpu dev="0" sm="99"/>'),
        r"line 3: sm must be one that the catalogue has a GPU of \(35, 37, .*but got 99",
    ),
    "bad count": (
        one(gpu='<gpu dev="0" sm="80"><nvlink target="a" count="0"/></gpu>'),
        "line 3: <nvlink> count must be .* 1 to 64",
    ),
    "bad speed": (one(net=card("mlx5_0", 0)), "line 3: <net> speed must be a number from 1 to"),
    "no cpu": (
        b'<system><pci busid="1"><gpu dev="0" sm="80"/></pci></system>',
        "each <gpu> must be in a <cpu>, but none is",
    ),
    "encoding": (
        b'<?xml version="1.0" encoding="klingon"?><system/>',
        "must be XML, but: unknown encoding",
    ),
    "twice": (
        one().replace(b"</cpu>", one().split(b"\n")[2] + b"</cpu>"),
        "each GPU must have a dev of its own, but 0 occurs twice",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_broken_file_gets_one_clear_error(case):
    content, message = BAD[case]
    with pytest.raises(ImportFileError, match=message):
        draft(content)


def test_gpu_as_an_option_needs_no_known_sm():
    assert draft(one(gpu='<gpu dev="0" sm="99"/>'), gpu="H100").gpu.value == "h100-sxm"
