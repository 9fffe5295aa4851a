"""Uploads: each kind is read, changes the scenario where it can, and is refused in a line."""

import gzip
import json
from pathlib import Path

import pytest
from app_pages import html, metrics, settled

from app.presets import FIRST
from app.spec import Spec
from app.uploads import KINDS, MOST_BYTES, outcome
from dpsim.base.errors import DpsimError
from dpsim.base.units import TIME, human

DATA = Path(__file__).parents[1] / "imports" / "data"
QUICK = Spec(FIRST, changes=("run.steps=2", "run.warmup=0"))
CONFIG = {
    "model_type": "bert",
    "hidden_size": 128,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 512,
    "vocab_size": 1000,
    "max_position_embeddings": 128,
    "type_vocab_size": 2,
}
BERT, KINETO, MODEL, CALIBRATION, NCCL, TOPO = KINDS


def read(kind, data, spec=QUICK, name="file"):
    content = data if isinstance(data, bytes) else (DATA / data).read_bytes()
    return outcome(name, content, kind, spec, lambda done, total: None)


def test_a_configuration_replaces_the_model():
    found = read(BERT, json.dumps(CONFIG).encode())
    assert "bert" in found.lines[0]
    assert found.result_after.step_time_s["mean"] < found.result_before.step_time_s["mean"]


def test_a_trace_becomes_a_profile_that_replaces_the_model():
    trace = (DATA / "cpu.kineto.json").read_bytes()
    found = read(KINETO, trace)
    assert found.result_after is not None
    assert read(KINETO, gzip.compress(trace)).lines == found.lines
    again = read(MODEL, found.text.encode())
    assert again.result_after.step_time_s == found.result_after.step_time_s


def test_a_log_becomes_a_profile_to_download():
    found = read(NCCL, "all-reduce-2x8-a100.log")
    assert "16 ranks on 2 hosts" in found.lines[0]
    assert json.loads(found.text)["kind"] == "nccl-tests"
    assert found.result_after is None


def test_a_topology_becomes_a_node_of_the_scenario():
    found = read(TOPO, "hgx-h100.topo.txt")
    assert "8 GPUs H100" in found.lines[0] or "8 GPUs" in found.lines[0]
    assert found.result_after.workers == 4 * 8
    assert found.result_after.parts_s["compute"] < found.result_before.parts_s["compute"]


def test_a_calibration_profile_changes_times():
    import validate

    folder = Path(validate.__file__).parent / "profiles"
    (file, *_) = sorted(folder.glob("*.json"))
    # A calibrated library is played message by message: those of two GPUs are enough.
    few = ("cluster.nodes=1", "cluster.gpus_per_node=2")
    spec = Spec(FIRST, changes=(*QUICK.changes, *few))
    found = read(CALIBRATION, file.read_bytes(), spec)
    assert found.result_after.step_time_s != found.result_before.step_time_s
    # As in the profile, its errors are those of rows that were not fitted on.
    assert found.lines[1].endswith("held-out rows")


BROKEN = {
    "empty": b" \n",
    "binary": b"\x00\x01\x02",
    "half a list": b'{"a": [',
    "code": b"import os; os.system('echo gone')",
    "another kind": b'{"name": "x"}',
    "deep": b"[" * 100_000,
    "torn gzip": b"\x1f\x8b\x08\x00garbage",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("broken", BROKEN)
def test_an_unreadable_file_is_a_one_line_error(kind, broken):
    with pytest.raises(DpsimError) as error:
        read(kind, BROKEN[broken], name="mine.txt")
    assert "mine.txt" in str(error.value)
    assert "/tmp" not in str(error.value)


def test_an_upload_unpacks_no_more_than_the_limit():
    bomb = gzip.compress(b"\0" * 2**20) * (MOST_BYTES // 2**20 + 1)
    assert len(bomb) < 100_000
    with pytest.raises(DpsimError, match="when it is unpacked"):
        read(MODEL, bomb)


def test_a_scenario_that_is_too_large_for_a_page_is_refused_before_it_is_simulated():
    large = QUICK.with_value("run.steps", "1000000").with_value("cluster.nodes", "100")
    with pytest.raises(DpsimError, match=r"steps \+ warmup must be at most"):
        read(BERT, json.dumps(CONFIG).encode(), large)


def test_an_upload_is_shown_with_the_scenario(open_page):
    page = open_page("own_files", set=["run.steps=2", "run.warmup=0"])
    assert not page.exception
    upload = page.file_uploader(key=f"own file {BERT}")
    upload.set_value(("config.json", json.dumps(CONFIG).encode(), "application/json")).run()
    settled(page)
    assert not page.exception
    assert not page.error
    found = read(BERT, json.dumps(CONFIG).encode())
    steps = [
        human(run.step_time_s["mean"], TIME, 3) for run in (found.result_after, found.result_before)
    ]
    step, change = metrics(page)["step time"]
    assert step == steps[0]
    assert change.endswith(f" from {steps[1]}")
    assert f'dp-verdict">{found.lines[0]}.' in html(page)
