"""A GPU is added by one file in the catalogue, and everything that asks about GPUs finds it."""

import json
import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import dpsim.hardware
from dpsim.engine import simulate
from dpsim.hardware import catalogue, gpu, link, node
from dpsim.imports.nccl_topo import node_from_nccl_topo
from dpsim.imports.nvidia_topo import node_from_nvidia_topo
from dpsim.imports.options import NodeOptions
from dpsim.network.libraries.nccl import NVSWITCH, describe
from dpsim.scenario import Scenario
from validate.published.tables.machines import gpu_in

X900 = """\
aliases: [Frobnicator X900, X900-SXM]
description: >-
  A GPU that nobody makes.
architecture: other
compute_capability: {value: 11.0, source: "an invention of this test"}
peak:
  fp32: {value: 40 TFLOP/s, source: "an invention of this test"}
  fp16: {value: 640 TFLOP/s, source: "an invention of this test"}
memory: {value: 96 GB, source: "an invention of this test"}
memory_bandwidth: {value: 3200 GB/s, source: "an invention of this test"}
power: {value: 500 W, source: "an invention of this test"}
nvlink: {link: nvlink5, count: 24, source: "an invention of this test"}
pcie: {generation: 4, lanes: 16, source: "an invention of this test"}
network: {value: 200 Gbit/s, source: "an invention of this test"}
pci_ids: ["0x3fff"]
typical: true
"""
CACHES = (gpu.gpus, gpu.typical_gpus, link.links, link.pcie_rate, node.nodes)


@pytest.fixture(autouse=True)
def one_more_file(tmp_path, monkeypatch):
    """The catalogue in a folder of its own, with one file more."""
    shipped = Path(dpsim.hardware.__path__[0])
    for folder in ("gpus", "links", "nodes"):
        shutil.copytree(shipped / folder, tmp_path / folder)
    (tmp_path / "gpus" / "x900.yaml").write_text(X900)
    monkeypatch.setattr(catalogue, "files", lambda package: tmp_path)
    for cached in CACHES:
        cached.cache_clear()
    yield
    monkeypatch.undo()
    for cached in CACHES:
        cached.cache_clear()


def nccl_topology(device, sm):
    return (
        '<system version="1"><cpu numaid="0">'
        f'<pci busid="0000:07:00.0" class="0x030200" device="{device}" '
        'link_speed="16.0 GT/s" link_width="16">'
        f'<gpu dev="0" sm="{sm}" rank="0"><nvlink target="0000:c4:00.0" count="24" '
        'tclass="0x068000"/></gpu></pci></cpu></system>'
    ).encode()


@pytest.mark.parametrize(("device", "sm"), [("0x3fff", 50), ("0xffff", 110)])
def test_nccls_topology_file_finds_it_by_pci_number_or_compute_capability(device, sm):
    draft = node_from_nccl_topo(nccl_topology(device, sm), NodeOptions())
    assert draft.gpu.value == "x900"
    assert ("gpu0", "nvswitch0", "nvlink5", 24) in draft.edges


def test_nvidia_smi_finds_it_by_its_nvlinks():
    names = ["GPU0", "GPU1", "GPU2"]
    rows = [
        "\t".join([name, *("X" if name == other else "NV24" for other in names)]) for name in names
    ]
    matrix = "\n".join(["\t" + "\t".join(names), *rows])
    draft = node_from_nvidia_topo(matrix.encode(), NodeOptions())
    assert draft.gpu.value == "x900"
    assert ("gpu*", "nvswitch0", "nvlink5", 24) in draft.edges


def test_nccls_model_reads_it_in_the_words_of_a_table():
    row = {"gpu": "8x Frobnicator X900 96GB", "gpus_per_node": "8", "intra_link": "NVLink"}
    machine = describe(row).machine
    assert (machine.gpu, machine.capability) == ("x900", 110)
    assert (machine.intra, machine.intra_rate) == (NVSWITCH, 24 * 50e9)


def test_the_tables_of_measurements_know_it():
    assert gpu_in("Cloud X900 SXM").name == "x900"


def scenario(kind):
    return Scenario.model_validate(
        {
            "name": "new GPU",
            "cluster": {"node": "dgx-h100", "gpu": kind, "nodes": 1},
            "workload": {"model": "resnet50", "batch_per_gpu": 64, "precision": "fp16"},
            "strategy": {"aggregation": {"kind": "allreduce", "library": "nccl"}},
            "run": {"steps": 2},
        }
    )


def test_a_run_computes_with_its_figures():
    written_out = YAML(typ="safe").load(X900)
    slower = written_out | {"peak": {"fp32": "20 TFLOP/s", "fp16": "320 TFLOP/s"}}
    times = [simulate(scenario(kind)).step_time_s["mean"] for kind in ("x900", written_out, slower)]
    assert times[0] == times[1] < times[2]


def test_the_schema_offers_it_to_editors():
    gpu_of_cluster = Scenario.model_json_schema()["$defs"]["ClusterConfig"]["properties"]["gpu"]
    name, *_ = gpu_of_cluster["anyOf"]
    assert "x900" in name["examples"]


def test_the_catalogue_lists_it(dpsim):
    code, out, _ = dpsim("catalogue", "gpus", "--json")
    assert code == 0
    assert "x900" in [row["name"] for row in json.loads(out)["rows"]]
