"""The matrix of nvidia-smi topo -m: what is read, what is built, what is refused."""

import pytest
from imported import assert_same_machine, joined

from dpsim.base.errors import UnknownNameError
from dpsim.hardware import nodes
from dpsim.imports.nvidia_topo import node_from_nvidia_topo, parse_nvidia_topo
from dpsim.imports.options import NodeOptions
from dpsim.imports.reading import ImportFileError

ALL = ["dgx1-p100", "dgx1-v100", "dgx-a100", "hgx-h100", "pcie-8gpu"]


def draft(content, **options):
    return node_from_nvidia_topo(content, NodeOptions(**options))


def matrix(*rows, header=None):
    names = [row.split()[0] for row in rows]
    return "\n".join([header or "\t" + "\t".join(names), *rows]).encode()


@pytest.mark.parametrize("name", ["dgx1-p100", "dgx1-v100", "dgx-a100", "hgx-h100"])
def test_a_known_machine_is_the_one_of_the_catalogue(data, name):
    assert_same_machine(draft(data(f"{name}.topo.txt")).to_node(), nodes()[name])


def test_a_pcie_box_is_the_one_of_the_catalogue_but_for_its_card(data):
    made = draft(data("pcie-8gpu.topo.txt"), gpu="titan-x-pascal", nic="10GbE")
    node, known = made.to_node(), nodes()["pcie-8gpu"]
    assert joined(node) == joined(known)
    assert (node.gpu, node.nics, node.nic_slots) == (known.gpu, known.nics, ("cpu1",))
    assert "gpu titan-x-pascal: given as --gpu" in made.sources()


@pytest.mark.parametrize("name", ALL)
def test_tabs_become_spaces_when_people_copy_from_a_terminal(data, name):
    tabs = data(f"{name}.topo.txt")
    spaces = b"user@host:~$ nvidia-smi topo -m\n" + tabs.replace(b"\t", b"    ").replace(
        b"\n", b"\r\n"
    )
    assert parse_nvidia_topo(spaces) == parse_nvidia_topo(tabs)


def test_the_underlined_header_the_legend_and_the_affinities_are_read(data):
    read = parse_nvidia_topo(data("hgx-h100.topo.txt"))
    assert read.gpus == 8
    assert read.devices[8:] == [
        "mlx5_0",
        "mlx5_1",
        "mlx5_2",
        "mlx5_bond_0",
        "mlx5_4",
        "mlx5_5",
        "mlx5_6",
        "mlx5_7",
        "mlx5_8",
    ]
    assert read.numa == [0] * 4 + [1] * 4
    assert read.cpus[0] == "0-47,96-143"


def test_cards_that_are_no_gpus_nearest_are_left_out(data):
    made = draft(data("hgx-h100.topo.txt"))
    assert (
        "ignored: network cards mlx5_bond_0, since every GPU has a nearer one" in made.assumptions()
    )


def test_numa_nodes_are_grouped_into_sockets(data):
    content = data("dgx-a100.topo.txt")
    assert draft(content).devices["cpu"] == 2


def test_four_fully_joined_gpus_need_no_switch_and_eight_do(data):
    rows = [
        f"GPU{i} " + " ".join("X" if i == j else "NV4" for j in range(4)) + " 0-31 0"
        for i in range(4)
    ]
    made = draft(matrix(*rows, header="GPU0 GPU1 GPU2 GPU3 CPU Affinity NUMA Affinity"))
    assert made.gpu.value == "a100-sxm-40gb"
    assert made.devices == {"gpu": 4, "cpu": 1}
    assert {count for *_, link, count in made.edges if link == "nvlink3"} == {4}
    eight = [
        f"GPU{i} " + " ".join("X" if i == j else "NV8" for j in range(8)) + " 0-31 0"
        for i in range(8)
    ]
    made = draft(
        matrix(
            *eight, header=" ".join(f"GPU{i}" for i in range(8)) + " CPU Affinity NUMA Affinity"
        ),
        gpu="A100",
    )
    assert ("gpu*", "nvswitch0", "nvlink3", 8) in made.edges


def test_switches_below_a_switch():
    made = draft(
        matrix(
            "GPU0 X PXB PIX PXB",
            "GPU1 PXB X PXB PIX",
            "mlx5_0 PIX PXB X PXB",
            "mlx5_1 PXB PIX PXB X",
        )
    )
    tree = {(a, b) for a, b, *_ in made.edges}
    assert tree == {
        ("gpu0", "pcie-switch1"),
        ("gpu1", "pcie-switch2"),
        ("pcie-switch[12]", "pcie-switch0"),
        ("pcie-switch0", "cpu0"),
    }
    assert made.nic_slots == ["pcie-switch1", "pcie-switch2"]


def test_a_single_gpu_gets_an_assumed_card():
    made = draft(
        b"\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-7\t\tN/A\n", gpu="T4", nic="25GbE"
    )
    node = made.to_node()
    assert joined(node) == {(frozenset(("gpu0", "cpu0")), "pcie3-x16", 1)}
    assert (
        "assumed: one network card, on the first socket, since none is listed" in made.assumptions()
    )


def test_nvlink_hides_pcie_and_that_is_reported():
    made = draft(matrix("GPU0 X NV4", "GPU1 NV4 X"))
    assert "assumed: one socket, since the matrix says nothing of sockets" in made.notes
    assert (
        "assumed: each GPU has a PCIe link of its own to its socket, since NVLink hides PCIe in "
        "the matrix" in made.notes
    )
    assert joined(made.to_node()) >= {(frozenset(("gpu0", "cpu0")), "pcie3-x16", 1)}


@pytest.mark.parametrize("name", ALL)
def test_names_from_the_file_cannot_break_the_yaml(data, name):
    content = data(f"{name}.topo.txt").replace(b"mlx5_4", b'"}]#:mlx')
    text = node_from_nvidia_topo(content, NodeOptions(), 'a"\n: #{b').to_yaml()
    assert all(line.isprintable() for line in text.splitlines())
    assert draft(content).to_node().gpus == 8


BAD = {
    "no GPUs": (b"hello\nworld\n", "no GPUs"),
    "binary": (b"\x7fELF\0\0", "must be text, but holds binary data"),
    "no rows": (
        b"\tGPU0\tGPU1\n",
        "line 1: the matrix must have a row for each of its 2 columns, but ends before GPU0",
    ),
    "truncated": (
        matrix("GPU0 X PIX", header="GPU0 GPU1"),
        "line 2: .* row for each of its 2 columns, but ends before GPU1",
    ),
    "cut row": (
        matrix("GPU0 X PIX", "GPU1 PIX"),
        "line 3: the row of GPU1 must have 2 cells, but got 1",
    ),
    "unknown link": (
        matrix("GPU0 X FOO", "GPU1 FOO X"),
        r"line 2: must be a known link type \(NV#, PIX, .*GPU0 to GPU1 is 'FOO'",
    ),
    "no NVLinks": (matrix("GPU0 X NV0", "GPU1 NV0 X"), "line 2: must be a known link type .*'NV0'"),
    "two ways": (
        matrix("GPU0 X PIX", "GPU1 SYS X"),
        "line 3: must be the same both ways, but GPU1 to GPU0 is 'SYS', .* in line 2",
    ),
    "X aside": (
        matrix("GPU0 PIX X", "GPU1 X PIX"),
        "line 2: must be X where a device meets itself and only there",
    ),
    "other row": (
        matrix("GPU0 X PIX", "GPU7 PIX X", header="GPU0 GPU1"),
        "line 3: must begin with a device .* but got 'GPU7'",
    ),
    "row twice": (
        matrix("GPU0 X PIX", "GPU0 X PIX", header="GPU0 GPU1"),
        "line 3: .* GPU0 has a second",
    ),
    "named twice": (b"GPU0 GPU0\n", "line 1: the header must name each device once"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_broken_matrix_gets_one_clear_error(case):
    content, message = BAD[case]
    with pytest.raises(ImportFileError, match=message):
        parse_nvidia_topo(content)


@pytest.mark.parametrize(
    ("option", "value"),
    [("gpu", "A1000"), ("nic", "HDRR")],
)
def test_an_unknown_name_in_an_option_is_an_error(data, option, value):
    with pytest.raises(UnknownNameError, match=f"must be a known (GPU|link), but got '{value}'"):
        draft(data("dgx1-v100.topo.txt"), **{option: value})
