"""What the free-text columns of measurement tables are read as."""

import pytest

from dpsim.base.errors import DpsimError
from dpsim.network.libraries.nccl import NcclMachine, Note, describe, describe_system
from dpsim.network.libraries.nccl.describe import (
    dtype_bytes,
    parse_gpu,
    parse_inside,
    parse_launch,
    parse_settings,
    parse_version,
)
from dpsim.network.libraries.nccl.gpus import capability_of, named_gpu, nvlink_rate
from dpsim.network.libraries.nccl.network_text import parse_nics, parse_transport

H100, _ = named_gpu("H100")


@pytest.mark.parametrize(
    ("text", "capability", "rate"),
    [
        ("A100-SXM4-80GB", 80, 300e9),
        ("NVIDIA H100 80GB HBM3", 90, 450e9),
        ("H200", 90, 450e9),
        ("B200-SXM", 100, 900e9),
        ("gb300", 103, 900e9),
        ("b300 sxm", 103, 900e9),
        ("GH200 (inferred)", 90, 450e9),
        ("Tesla V100-SXM2-16GB", 70, 150e9),
        ("V100-PCIE-16GB", 70, 0.0),
        ("RTX 4090", 89, 0.0),
        ("Tesla T4", 75, 0.0),
        ("rtx pro 6000 server", 120, 0.0),
        ("l40s", 89, 0.0),
        ("A10G (from PCI id 2237)", 86, 0.0),
        ("p40", 61, 0.0),
        ("TITAN RTX", 75, 0.0),
        ("NVIDIA A30", 80, 0.0),
        ("K80 (GK210 die)", 37, 0.0),
        ("P102-100 (memory)", 61, 0.0),
    ],
)
def test_gpu(text, capability, rate):
    gpu, notes = parse_gpu(text)
    assert (capability_of(gpu), nvlink_rate(gpu), notes) == (capability, rate, [])


def test_an_unknown_gpu_is_noted_with_what_it_is_taken_as():
    gpu, notes = parse_gpu("Frobnicator 9")
    assert capability_of(gpu) == 80
    assert notes == [Note("gpu", "Frobnicator 9", "an A100-class GPU: its name is not known")]
    assert str(notes[0]) == "gpu 'Frobnicator 9': taken as an A100-class GPU: its name is not known"


@pytest.mark.parametrize(
    ("text", "gpu", "kind", "rate", "staged"),
    [
        ("NVLink3+NVSwitch (600GB/s bidir per GPU)", "A100", "nvswitch", 300e9, False),
        ("NVLink 5 + NVSwitch", "B200", "nvswitch", 900e9, False),
        ("NVLink4", "H800", "nvswitch", 200e9, False),
        ("NVLink2 hybrid cube mesh (DGX-1V class)", "V100-SXM2", "nvlink-mesh", 150e9, False),
        ("PCIe3 x16, no P2P (via host)", "V100-PCIE", "pcie", 15.7538e9, True),
        ("PCIe Gen5 x16", "H100 PCIe", "pcie", 63.0154e9, False),
        ("PCI-e 4.0 x8", "A10G", "pcie", 15.75385e9, False),
        ("PCIe (host staged)", "RTX 4090", "pcie", 31.5077e9, True),
        ("PCIe4", "RTX 4090", "pcie", 31.5077e9, True),
        ("xGMI Infinity Fabric", "MI300X", "xgmi", 448e9, False),
        ("", "H100", "nvswitch", 450e9, False),
    ],
)
def test_inside_a_node(text, gpu, kind, rate, staged):
    inside = parse_inside(text, named_gpu(gpu)[0], 8)[0]
    assert (inside.kind, inside.rate, inside.staged) == (kind, rate, staged)


@pytest.mark.parametrize(
    ("text", "transport", "rate"),
    [
        ("EFA v1 4x100Gbps per node (400Gbps)", "efa", 50e9),
        ("HDR 8x200Gbps per node", "ib", 200e9),
        ("8x 400 Gb/s NDR InfiniBand", "ib", 400e9),
        ("8 x ConnectX-7 400G", "ib", 400e9),
        ("InfiniBand EDR 4x100Gbps per node (inferred)", "ib", 50e9),
        ("8x NDR InfiniBand", "ib", 400e9),
        ("4xHDR100", "ib", 50e9),
        ("InfiniBand HDR, one NIC", "ib", 25e9),
        ("RoCE 2x100Gbps per node", "roce", 25e9),
        ("RoCEv2 8 x 50 GB/s", "roce", 400e9),
        ("32x100G EFA", "efa", 400e9),
        ("GPUDirect-TCPX 4x200 Gbps", "gpudirect-tcpx", 100e9),
        ("Slingshot 4x200Gbps per node", "slingshot", 100e9),
        ("100GbE TCP", "tcp", 12.5e9),
        ("25 GbE", "tcp", 3.125e9),
    ],
)
def test_between_nodes(text, transport, rate):
    assert parse_transport(text) == (transport, [])
    assert parse_nics(text, H100, 8)[0] == rate


@pytest.mark.parametrize(
    "text", ["RoCE, plateau 71GB/s (untuned; reaches 222GB/s)", "RoCE (effective 0.74GB/s)", "RoCE"]
)
def test_results_are_never_read_as_line_rates(text):
    rate, notes = parse_nics(text, named_gpu("A100")[0], 8)
    assert rate == 8 * 200e9 / 8
    assert [note.taken_as for note in notes] == [
        "8 x 200 Gbit/s a node: the number of cards is not stated"
    ]


def test_fewer_gpus_than_cards_use_their_own():
    assert parse_nics("InfiniBand NDR 8x400Gbps", H100, 2)[0] == 2 * 400e9 / 8
    assert parse_nics("32x100G EFA", H100, 2)[0] == 8 * 100e9 / 8


def test_an_unknown_transport_is_noted_and_a_bare_speed_is_tcp():
    assert parse_transport("carrier pigeon")[0] == "unknown"
    assert "not recognised" in parse_transport("carrier pigeon")[1][0].taken_as
    assert parse_transport("10Gb-class NIC") == (
        "tcp",
        [Note("inter_link", "10Gb-class NIC", "TCP: only a speed is given")],
    )


def test_version_settings_launch_and_data_type():
    assert parse_version("2.21.5 (NGC TF 24.06)") == (2, 21, 5)
    assert parse_version("") is None
    assert parse_settings("NCCL_ALGO=Ring, MIN_CTAS=24") == ("ring", None)
    assert parse_settings("default (NVLSTree/Tree at large per maintainer)") == (None, None)
    assert parse_launch("float32 (torch bench)") == "torch"
    assert parse_launch("8x A100, single process -g 8") == "single-process"
    assert parse_launch("nccl-tests -g 1") == "default"
    assert [
        dtype_bytes(text) for text in ("float32 (torch bench)", "half", "int8", "", "quaternion")
    ] == [4, 2, 1, 4, None]


def test_a_row_in_full():
    row = {
        "gpu": "H100-SXM5-80GB",
        "nodes": "2",
        "gpus_per_node": "8",
        "intra_link": "NVLink4+NVSwitch3",
        "inter_link": "InfiniBand NDR 8x400Gbps per node",
        "nccl_version": "2.26.2",
        "dtype": "float32",
    }
    described = describe(row)
    machine = described.machine
    assert described.notes == ()
    assert (machine.ranks, machine.transport, machine.nic_rate, machine.nccl_version) == (
        16,
        "ib",
        400e9,
        (2, 26, 2),
    )


def test_a_system_is_its_name():
    machine = describe_system({"system": "l40s", "num_gpus": "4", "nccl_version": "2.27.3"}).machine
    assert (machine.intra, machine.gpus_per_node) == ("pcie", 4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"nodes": 0}, "nodes must be at least 1, but got 0"),
        ({"gpus_per_node": 0}, "gpus_per_node must be at least 1, but got 0"),
        (
            {"intra": "string"},
            "intra must be one of nvswitch, nvlink-mesh, pcie, xgmi, but got 'string'",
        ),
        ({"transport": "pigeon"}, "transport must be one of"),
        ({"nodes": 2}, "nic_rate must be above 0 on 2 nodes"),
    ],
)
def test_a_machine_that_cannot_be(wrong, message):
    with pytest.raises(DpsimError, match=message):
        NcclMachine(
            **{"gpu": "h100", "capability": 90, "intra": "nvswitch", "intra_rate": 450e9, **wrong}
        )


def test_nvlink_between_nodes_is_one_domain_and_noted():
    row = {
        "gpu": "GB200",
        "nodes": "2",
        "gpus_per_node": "4",
        "intra_link": "NVLink5",
        "inter_link": "NVLink (NVL72)",
    }
    described = describe(row)
    assert (described.machine.nodes, described.machine.gpus_per_node) == (1, 8)
    assert [note.taken_as for note in described.notes] == ["one NVLink domain of 8 GPUs"]


def test_tcp_without_a_rate_is_plain_ethernet():
    rate, notes = parse_nics("GCP VM Ethernet (TCP)", H100, 8)
    assert rate == 10e9 / 8
    assert notes
