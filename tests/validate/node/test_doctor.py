"""What the doctor says of a node, by stand-ins for torch.cuda and nvidia-smi."""

import json
import time
from pathlib import Path

import pytest
from json_docs import documented_keys

pytest.importorskip("torch")

import torch
import torch.distributed as dist
from fake_cuda import stand_in
from fake_smi import FakeSmi

from dpsim.base.errors import DpsimError
from validate.node import diagnosis, disturbed, here
from validate.node.disturbed import Watchman
from validate.node.rows import Rows

pytestmark = pytest.mark.torch

TOPOLOGIES = Path(__file__).parents[2] / "imports" / "data"


@pytest.fixture
def smi(tmp_path, monkeypatch):
    return FakeSmi(tmp_path, monkeypatch)


@pytest.fixture
def cuda(monkeypatch):
    monkeypatch.setattr(dist, "is_nccl_available", lambda: True)
    monkeypatch.setattr(disturbed, "busy_cores", lambda: 0.0)
    monkeypatch.setattr("validate.node.doctor.busy_cores", lambda: 0.0)
    return stand_in(monkeypatch, uuids=("GPU-a", "GPU-b"))


def test_a_sound_node_has_no_problem_and_a_plan(smi, cuda):
    smi.topo = (TOPOLOGIES / "hgx-h100.topo.txt").read_text()
    smi.say()
    found = diagnosis()
    assert found["problems"] == []
    assert found["device"] == "cuda"
    assert found["backends"] == ["gloo", "nccl"]
    assert [gpu["catalogue"] for gpu in found["gpus"]] == ["h100-sxm"] * 2
    assert found["gpus"][0]["max_clock_hz"] == 1.98e9
    assert found["links"] == {"gpus": 8, "pairs": {"NV18": 28}}
    assert found["versions"]["driver"] == "550.54.15"
    names = [item["name"] for item in found["plan"]]
    # Two models and a collective before all else.
    assert names[:3] == [
        "all-reduce by 2 ranks",
        "resnet50 in bf16 by 2 ranks",
        "bert-large in bf16 by 2 ranks",
    ]
    assert found["seconds"] == sum(item["seconds"] for item in found["plan"])


def problem(found):
    (output,) = found["problems"]
    assert "\n" not in output
    return output


def test_a_process_on_a_gpu_is_a_problem(smi, cuda):
    smi.processes = ["GPU-b, 4711, python3, 41000"]
    smi.say()
    assert problem(diagnosis()).startswith(
        "GPU 1 is used by process 4711 (python3), which holds 43 GB there: its memory is missing"
    )


def test_memory_in_use_by_nobody_who_is_shown_is_a_problem(smi, cuda):
    smi.gpus[0]["memory.used"] = "41000"
    smi.say()
    assert problem(diagnosis()) == (
        "GPU 0 (NVIDIA H100 80GB HBM3) has 43 GB in use by processes that are not shown"
    )


def test_a_clock_that_is_held_down_is_a_problem(smi, cuda):
    smi.gpus[1] |= {"clocks.sm": "1200", "clocks_throttle_reasons.active": "0x0000000000000044"}
    smi.say()
    assert problem(diagnosis()) == (
        "GPU 1 (NVIDIA H100 80GB HBM3) runs at 1200 of 1980 MHz because of the power cap and heat "
        "(hardware): what is measured now is slower than it could be"
    )


def test_a_gpu_that_idles_is_not_slowed_down(smi, cuda):
    smi.say(**{"clocks.sm": "345", "clocks_throttle_reasons.active": "0x0000000000000003"})
    assert diagnosis()["problems"] == []


def test_a_slice_of_a_gpu_is_a_problem_and_has_no_plan(smi, cuda):
    cuda.name = "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    smi.gpus = smi.gpus[:1]
    smi.say(**{"mig.mode.current": "Enabled"})
    found = diagnosis()
    divided, refused = found["problems"]
    assert divided.endswith(
        "is divided by MIG, and a slice is no GPU of the catalogue: turn MIG off"
    )
    assert "the catalogue must know the GPUs that are here" in refused
    assert found["plan"] == []


def too_old():
    raise RuntimeError("The NVIDIA driver on your system is too old (found version 11040).\nPlease")


def test_a_driver_too_old_for_torch_is_reported_at_once(smi, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "init", too_old)
    why = "The NVIDIA driver on your system is too old (found version 11040)."
    assert f"torch cannot use the GPUs that are here: {why}" in diagnosis()["problems"]
    with pytest.raises(DpsimError, match=r"torch sees no GPU here: The NVIDIA driver .* too old"):
        here("cuda")


def test_a_driver_that_does_not_answer_is_reported_at_once(smi, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    smi.fails = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    smi.say()
    assert f"torch cannot use the GPUs that are here: {smi.fails}" in diagnosis()["problems"]


def test_a_busy_machine_is_a_problem(monkeypatch):
    monkeypatch.setattr("validate.node.doctor.busy_cores", lambda: 2.0)
    assert any("other programs keep 2.0 of" in output for output in diagnosis()["problems"])


def test_what_disturbs_an_item_is_noted_once(smi, cuda, tmp_path, monkeypatch):
    monkeypatch.setattr(disturbed, "_EVERY_S", 0.0)
    smi.processes = ["GPU-a, 1, train.py, 1000"]
    smi.say(**{"clocks.sm": "900", "clocks_throttle_reasons.active": "0x0000000000000004"})
    rows = Rows(tmp_path / "rows.jsonl")
    watchman = Watchman("cuda")
    # A rank of our own, which comes later, is none of the others.
    smi.processes.append("GPU-b, 2, python3, 2000")
    smi.say()
    for name in ("one", "two"):
        rows.write({"begin": name, "item": {}})
        rows.refresh()
        for _ in range(3):
            watchman.look(rows)
        rows.write({"end": name, "seconds": 1.0})
    rows.refresh()
    for attempt in rows.attempts:
        assert [note[:25] for note in attempt.notes] == [
            "GPU 0 (NVIDIA H100 80GB H",
            "GPU 1 (NVIDIA H100 80GB H",
            "GPU 0 is used by process ",
        ]


def test_the_command_answers_in_ten_seconds(dpsim):
    began = time.monotonic()
    code, out, _ = dpsim("validate", "doctor", "--json")
    assert (code, time.monotonic() - began < 10) == (0, True)
    found = json.loads(out)
    assert (found["kind"], found["schema_version"], found["device"]) == (
        "validate-doctor",
        1,
        "cpu",
    )
    code, out, _ = dpsim("validate", "doctor")
    assert "dpsim validate node takes about" in out


def test_what_it_answers_is_documented(smi, cuda):
    assert list(diagnosis()) == documented_keys("dpsim validate doctor --json")
