"""Other words for the machines of measurement tables: none lands on a branch of another kind."""

import numpy as np
import pytest

from dpsim.network.libraries.nccl import describe, predict
from dpsim.network.libraries.nccl.description import parse_settings, parse_version
from dpsim.network.libraries.nccl.gpus import named_gpu
from dpsim.network.libraries.nccl.intra_node_text import parse_intra_node
from dpsim.network.libraries.nccl.machine import Bus

SIZES = np.exp2(np.arange(3, 34, 3))


def machine_of(gpu, inside, between, nodes=2, local=8, **more):
    row = {"gpu": gpu, "intra_link": inside, "inter_link": between, **more}
    return describe(row | {"nodes": str(nodes), "gpus_per_node": str(local)}).machine


# Gbit/s of all cards of a node of eight.
BETWEEN = [
    ("H100", "8x CX-7", "ib", 3200),
    ("H100", "8x CX7 400G IB", "ib", 3200),
    ("H100", "8x ConnectX-7 NDR400", "ib", 3200),
    ("H100", "ConnectX-7 adapters, 400G x8", "ib", 3200),
    ("H100", "BlueField-3 8x400Gbps", "ib", 3200),
    ("H100", "16 x 200 Gbps RDMA NICs", "ib", 3200),
    ("H100", "400Gbps*8 InfiniBand", "ib", 3200),
    ("H100", "3.2Tbps InfiniBand", "ib", 3200),
    ("H100", "InfiniBand NDR 400Gbps per node", "ib", 400),
    ("H100", "1x HDR100 per GPU", "ib", 800),
    ("A100", "IB HDR200 x4", "ib", 800),
    ("A100", "200Gb/s HDR InfiniBand x 8", "ib", 1600),
    ("A100", "eight 200 Gb/s HDR InfiniBand", "ib", 1600),
    ("A100", "8 HDR HCAs", "ib", 1600),
    ("A100", "HDR InfiniBand 200G (PCIe 4.0 x16)", "ib", 1600),
    ("V100", "dual-rail EDR InfiniBand", "ib", 200),
    ("V100", "dual EDR", "ib", 200),
    ("P100", "2x Omni-Path 100Gb/s", "ib", 200),
    ("B200", "XDR 800G x8", "ib", 6400),
    ("B300", "8x CX-8 800G", "ib", 6400),
    ("H100", "RoCEv2 400GbE", "roce", 3200),
    ("H100", "RoCE 400Gbps per node", "roce", 400),
    ("H100", "3.2 Tb/s RoCE", "roce", 3200),
    ("H100", "Spectrum-X 8x400G", "roce", 3200),
    ("H100", "ConnectX-7 8x400GbE", "roce", 3200),
    ("MI300X", "8x Pollara 400", "roce", 3200),
    ("H200", "EFAv3 16x200Gbps", "efa-v2", 3200),
    ("B200", "EFA v4 8x400Gbps", "efa-v2", 3200),
    ("H100", "EFA (p5.48xlarge)", "efa-v2", 3200),
    ("H100", "EFA", "efa-v2", 3200),
    ("A100", "AWS EFA, p4d.24xlarge", "efa-v1", 400),
    ("A100", "EFA 400Gbps", "efa-v1", 400),
    ("H100", "TCPX", "tcpx", 800),
    ("H100", "TCPX 4x 200Gbps gVNIC", "tcpx", 800),
    ("H100", "GPUDirect TCPXO (1600 Gbps)", "tcpxo", 1600),
    ("A100", "4x Slingshot-11 NICs (200 Gb/s each)", "slingshot", 800),
    ("A100", "Cassini 200 Gbps x4", "slingshot", 800),
    ("GH200", "Slingshot 11", "slingshot", 1600),
    ("H100", "gVNIC 200Gbps", "tcp", 200),
    ("A10G", "ENA 25Gbps", "tcp", 25),
    ("H100", "100GbE sockets, no RDMA", "tcp", 100),
    ("H100", "IB disabled (NCCL_IB_DISABLE=1), 100GbE", "tcp", 100),
    ("H100", "InfiniBand NDR beside the processors", "ib", 3200),
]


@pytest.mark.parametrize(("gpu", "text", "transport", "gigabits"), BETWEEN)
def test_words_for_networks(gpu, text, transport, gigabits):
    machine = machine_of(gpu, "NVLink", text)
    assert (machine.transport, machine.nic_rate) == (transport, gigabits * 1e9 / 8)


@pytest.mark.parametrize(
    ("text", "local", "gigabits"),
    [
        ("InfiniBand 100Gbps per node", 1, 100),  # one card, whichever GPUs use it
        ("RoCE 1600Gbps per node", 2, 400),  # more than a card has: two of eight GPUs' share
        ("InfiniBand HDR, one NIC per GPU", 4, 800),
    ],
)
def test_what_some_gpus_of_a_node_use_of_its_cards(text, local, gigabits):
    assert machine_of("A100", "NVLink3", text, local=local).nic_rate == gigabits * 1e9 / 8


def test_settings_take_the_cards_transport_away():
    reported = {"algo_proto": "NCCL_IB_DISABLE=1"}
    assert machine_of("H100", "NVLink4", "RoCE 8x400Gbps", **reported).transport == "tcp"
    assert machine_of("A100", "NVLink3", "EFA v1 4x100Gbps", **reported).transport == "efa-v1"
    reported = {"algo_proto": "NCCL_NET=Socket"}
    assert machine_of("A100", "NVLink3", "EFA v1 4x100Gbps", **reported).transport == "tcp"


@pytest.mark.parametrize(
    ("gpu", "local", "text", "kind", "rate"),
    [
        ("RTX A6000", 2, "NVLink bridge", "nvlink-mesh", 50e9),
        ("RTX 3090", 2, "NVLink bridge (NV4)", "nvlink-mesh", 50e9),
        ("H100 NVL", 2, "NVLink bridge (NV12)", "nvlink-mesh", 300e9),
        ("A100-PCIe-80GB", 2, "NV8", "nvlink-mesh", 200e9),
        ("RTX 3090", 2, "PCIe 4.0 x16 host bridge (PHB)", "pcie", 31.5077e9),
        ("V100-SXM2", 2, "NVLink2 (NV2)", "nvlink-mesh", 50e9),
        ("A100-SXM4", 2, "NV12", "nvswitch", 300e9),
        ("A100-SXM4", 4, "NVLink3 all-to-all, no NVSwitch", "nvswitch", 300e9),
        ("H100-SXM5", 2, "NV6 all-to-all", "nvlink-mesh", 150e9),
        ("H100-SXM5", 3, "NVLink4, no NVSwitch", "nvlink-mesh", 300e9),
        ("H100-SXM5", 4, "NVLink4 all-to-all over NVSwitch", "nvswitch", 450e9),
        ("P100-SXM2", 8, "NVLink1 hybrid cube mesh", "nvlink-mesh", 80e9),
        ("V100-SXM3", 16, "NVLink2+NVSwitch", "nvswitch", 150e9),
        ("H100-SXM5", 8, "NVLink disabled", "pcie", 63.0154e9),
        ("H100 PCIe", 4, "NVLink bridges", "pcie", 63.0154e9),
        ("L40", 8, "PCIe 4.0 switch x4 (2 GPUs each)", "pcie", 31.5077e9),
        ("MI100", 4, "PCIe 4.0 x16", "pcie", 31.5077e9),
        ("B200 NVL", 8, "", "nvswitch", 900e9),
    ],
)
def test_words_for_what_joins_gpus(gpu, local, text, kind, rate):
    inside = parse_intra_node(text, named_gpu(gpu)[0], local)[0]
    assert (inside.kind, inside.rate) == (kind, pytest.approx(rate))


@pytest.mark.parametrize(
    ("gpu", "local", "text", "bus"),
    [
        ("RTX 4090", 8, "PCIe 4.0 x16 via PLX switch, P2P disabled", Bus(True, 8)),
        ("A10", 4, "PCIe 4.0 switch, P2P not supported", Bus(True, 4)),
        ("A10", 4, "PCIe 4.0 x16, P2P: no", Bus(True)),
        ("A10", 2, "PCIe 4.0 x16, no peer access", Bus(True)),
        ("H100 PCIe", 8, "PCIe Gen5, 2 PLX switches, no P2P", Bus(True, 4)),
        ("RTX 6000 Ada", 8, "PCIe 5.0 x16, two NUMA nodes, P2P on", Bus(sockets=True)),
        ("RTX PRO 6000", 8, "PCIe 5.0 x16 dual root, P2P enabled", Bus(sockets=True)),
        ("H100 NVL", 4, "PCIe 5.0 x16 + NVLink bridges", Bus(one_way=True)),
        ("RTX 3090", 4, "PCIe 4.0 x16, NVLink bridges", Bus(one_way=True)),
        ("L40S", 8, "PCIe Gen4 x16, two NUMA", Bus(True)),
    ],
)
def test_words_for_how_copies_cross_the_bus(gpu, local, text, bus):
    assert parse_intra_node(text, named_gpu(gpu)[0], local)[0].bus == bus


@pytest.mark.parametrize(
    ("inside", "settings"),
    [
        ("NVLink4+NVSwitch3", "NCCL_NVLS_ENABLE=0"),
        ("NVLink4+NVSwitch3", "NCCL_ALGO=^NVLS"),
        ("NVLink4+NVSwitch3, NVLS disabled", ""),
        ("NVLink4, fully connected", ""),
    ],
)
def test_no_switch_reduces(inside, settings):
    assert machine_of("H100", "NVLink4+NVSwitch3 (NVLS)", "", nodes=1).multicast
    assert not machine_of("H100", inside, "", nodes=1, algo_proto=settings).multicast


def test_racks_of_two_halves_are_one_domain():
    machine = machine_of("GB200", "NVLink5 NVL36x2", "4x400G IB", nodes=18, local=4)
    assert (machine.nodes, machine.gpus_per_node) == (1, 72)


def test_unknown_gpus_of_amd_are_served_by_its_library():
    described = describe({"gpu": "Radeon AI PRO R9700", "nodes": "2", "gpus_per_node": "1"})
    assert described.machine.intra == "xgmi"
    assert described.notes[0].taken_as == "an MI300X-class GPU: its name is not known"


def test_versions_of_other_programs_are_not_nccls():
    assert parse_version("CUDA 12.4, NCCL 2.21.5") == (2, 21, 5)
    assert parse_version("NCCL version 2.19.3+cuda12.3") == (2, 19, 3)
    assert parse_version("CUDA 12.2") is None
    assert parse_version("24.06 (container)") is None


def test_plain_words_are_settings_too():
    assert parse_settings("Ring, 1 channel, LL128") == ("ring", "ll128")
    assert parse_settings("Ring (stated)") == ("ring", None)
    assert parse_settings("Ring, 1 channel, default protocol (LL)") == (None, None)
    assert parse_settings("NVLS (doc says; not valid for A100)") == (None, None)
    assert parse_settings("Ring") == (None, None)
    assert parse_settings("Ring, LL, LL128") == (None, None)


def test_of_a_list_nccl_chooses():
    assert parse_settings("NCCL_ALGO=Ring,Tree NCCL_PROTO=Simple") == (None, "simple")
    assert parse_settings("NCCL_ALGO=Ring, NCCL_PROTO=LL,LL128") == ("ring", None)


@pytest.mark.pairwise
@pytest.mark.parametrize("gpu", ["H100", "V100-SXM2", "A100-PCIe-40GB", "MI300X", "Frobnicator"])
@pytest.mark.parametrize("inside", ["", "NVLink", "NVLink bridge", "PCIe 4.0, 0 uplinks", "?"])
@pytest.mark.parametrize(("nodes", "local"), [(1, 2), (1, 7), (3, 1), (5, 3), (2, 16)])
def test_whatever_words_times_are_finite_and_more_bytes_take_longer(gpu, inside, nodes, local):
    machine = machine_of(gpu, inside, "carrier pigeon", nodes=nodes, local=local)
    for operation in ("all_reduce", "alltoall", "broadcast"):
        seconds = predict(machine, operation, 4, SIZES).seconds
        assert np.isfinite(seconds).all()
        assert (seconds > 0).all()
        assert seconds[-1] > seconds[0]
