"""What the free-text columns of measurement tables are read as."""

import pytest

from dpsim.base.errors import DpsimError
from dpsim.hardware import gpus
from dpsim.network.libraries.nccl import NcclMachine, Note, describe, describe_system
from dpsim.network.libraries.nccl.description import (
    dtype_bytes,
    parse_gpu,
    parse_launch,
    parse_settings,
    parse_version,
)
from dpsim.network.libraries.nccl.gpus import capability_of, named_gpu, nvlink_rate
from dpsim.network.libraries.nccl.intra_node_text import parse_intra_node
from dpsim.network.libraries.nccl.machine import Bus
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
        ("PCIe Gen5 x16, one switch", "H100 PCIe", "pcie", 63.0154e9, False),
        ("PCI-e 4.0 x8", "A10G", "pcie", 15.75385e9, True),
        ("PCIe (host staged)", "RTX 4090", "pcie", 31.5077e9, True),
        ("PCIe4", "RTX 4090", "pcie", 31.5077e9, True),
        ("xGMI Infinity Fabric", "MI300X", "xgmi", 448e9, False),
        ("", "H100", "nvswitch", 450e9, False),
    ],
)
def test_inside_a_node(text, gpu, kind, rate, staged):
    inside = parse_intra_node(text, named_gpu(gpu)[0], 8)[0]
    assert (inside.kind, inside.rate, inside.bus.staged) == (kind, rate, staged)


@pytest.mark.parametrize(
    ("text", "settings", "gpu", "local", "bus"),
    [
        ("PCIe 3.0 x16 switch (PIX), no P2P", "", "RTX 2080 Ti", 2, Bus(True, 2)),
        ("PCIe 5.0 x16, 2 switches of 4, P2P", "Ring", "RTX PRO 6000", 8, Bus()),
        ("PCIe 5.0 x16 direct, 2 sockets, P2P", "", "RTX PRO 6000", 8, Bus(sockets=True)),
        ("PCIe 4.0 x16 direct, 2 sockets, no P2P (host-staged)", "", "RTX 4090", 8, Bus(True)),
        ("PCIe 4.0 x16, 2 switches, no P2P", "", "RTX 4090", 8, Bus(True, 4)),
        ("PCIe 3.0 x16, one shared uplink (PIX), host-staged", "", "V100-PCIE", 2, Bus(True, 2)),
        ("PCIe 3.0 x16, two uplinks, two sockets (SYS), host-staged", "", "V100", 2, Bus(True)),
        ("PCIe 3.0 x16, 8 GPUs on four shared uplinks, host-staged", "", "V100", 8, Bus(True, 2)),
        (
            "PCIe 3.0 x16, one shared uplink (PIX), host-staged",
            "NCCL_SHM_USE_CUDA_MEMCPY=1",
            "V100-PCIE",
            2,
            Bus(True, 2, copy_engine=True),
        ),
        ("PCIe 3.0 x16, P2P (ACS redirect)", "", "V100-PCIE", 2, Bus(True)),
        ("PCIe 4.0 x16", "NCCL_P2P_DISABLE=1", "A10", 2, Bus(True)),
        ("PCIe 3.0 x16", "", "K80", 4, Bus(True, 2)),
        ("NVLink3 pairs (NV12) + PCIe 4.0", "", "A100-PCIe-80GB", 4, Bus(one_way=True)),
    ],
)
def test_how_copies_cross_the_bus(text, settings, gpu, local, bus):
    assert parse_intra_node(text, named_gpu(gpu)[0], local, settings)[0].bus == bus


@pytest.mark.parametrize(
    ("text", "gpu", "local", "staged", "notes"),
    [
        ("PCIe 4.0 x16", "A10", 2, False, 1),
        ("PCIe 4.0 x16, 2 sockets (P2P not stated)", "A100-PCIe-40GB", 4, True, 1),
        ("PCIe 4.0, one socket (P2P use unclear)", "A100-PCIe-40GB", 4, True, 1),
        ("PCIe 3.0 x16, one switch (by bus numbers)", "V100-PCIE", 4, False, 0),
        ("PCIe 4.0 x16, P2P (patched driver)", "RTX 4090", 4, False, 0),
        ("PCIe 4.0 x16", "RTX 4090", 2, True, 0),
    ],
)
def test_a_way_that_is_not_stated_is_noted(text, gpu, local, staged, notes):
    inside, output = parse_intra_node(text, named_gpu(gpu)[0], local)
    assert inside.bus.staged is staged
    assert len(output) == notes


def test_a_bridged_pair_has_its_own_links():
    inside, _ = parse_intra_node("NVLink3 NV4 per pair (100 GB/s)", named_gpu("A100")[0], 2)
    assert (inside.kind, inside.rate) == ("nvlink-mesh", 4 * 25e9)


@pytest.mark.parametrize(
    ("text", "transport", "rate"),
    [
        ("EFA v1 4x100Gbps per node (400Gbps)", "efa-v1", 50e9),
        ("EFA v2 3200Gbps per node", "efa-v2", 400e9),
        ("EFA v3 3200Gbps per node", "efa-v2", 400e9),
        ("EFAv4 6400Gbps per node", "efa-v2", 800e9),
        ("GPUDirect-TCPXO 8x200Gbps per node", "tcpxo", 200e9),
        ("TCP sockets over IPoIB 100GbE", "tcp", 12.5e9),
        ("Slingshot-11 200Gbps per GPU, aws-ofi-nccl cxi", "slingshot", 200e9),
        ("RoCE 1x400Gbps per GPU (gIB)", "roce", 400e9),
        ("HDR 8x200Gbps per node", "ib", 200e9),
        ("8x 400 Gb/s NDR InfiniBand", "ib", 400e9),
        ("8 x ConnectX-7 400G", "ib", 400e9),
        ("InfiniBand EDR 4x100Gbps per node (inferred)", "ib", 50e9),
        ("8x NDR InfiniBand", "ib", 400e9),
        ("4xHDR100", "ib", 50e9),
        ("InfiniBand HDR, one NIC", "ib", 25e9),
        ("RoCE 2x100Gbps per node", "roce", 25e9),
        ("RoCEv2 8 x 50 GB/s", "roce", 400e9),
        ("32x100G EFA", "efa-v2", 400e9),
        ("GPUDirect-TCPX 4x200 Gbps", "tcpx", 100e9),
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
    assert parse_launch("4x A100, torch bench; launcher: one process -g 4; x") == "single-process"
    assert parse_launch("launcher: one process per GPU under slurm") == "default"
    assert parse_version("RCCL ROCm 4.2") is None
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


@pytest.mark.parametrize(
    ("gpu", "rate"),
    [("MI300X", 448e9), ("MI325X", 448e9), ("MI355X", 7 * 76.8e9), ("MI250X", 4 * 50e9)],
)
def test_links_of_amd_s_gpus_are_those_of_their_own_machines(gpu, rate):
    inside, _ = parse_intra_node("xGMI mesh", gpus()[gpu], 8)
    assert (inside.kind, inside.rate) == ("xgmi", pytest.approx(rate))
