"""The plan for a borrowed GPU: pieces that resume, that are cut off, and one table of all."""

import io
import os
import subprocess
from importlib.util import find_spec

import pytest

if find_spec("torch") is None and os.environ.get("CI") != "true":
    pytest.skip("torch is not installed: pip install -e '.[validate]'", allow_module_level=True)

from rich.console import Console

from validate.gpu_plan import __main__ as plan_main
from validate.gpu_plan.pieces import Plan
from validate.gpu_plan.sizes import GPU, SMALL
from validate.gpu_plan.table import rows_of, table_of

pytestmark = pytest.mark.torch


class Few(Plan):
    """Two pieces, of which the second fails in the middle."""

    def pieces(self):
        return {"first": lambda: iter([{"what": "a"}, {"what": "b"}]), "second": self._broken}

    def _broken(self):
        yield {"what": "c"}
        raise RuntimeError("the GPU is gone")


@pytest.fixture
def few(tmp_path):
    return Few(tmp_path, "cpu", "gloo", SMALL)


def test_a_piece_that_fails_keeps_what_it_measured(few):
    plan_main.carry_piece(few, "first")
    with pytest.raises(RuntimeError, match="the GPU is gone"):
        plan_main.carry_piece(few, "second")
    assert sorted(file.name for file in few.folder.iterdir()) == ["first.jsonl", "second.part"]
    assert [row["what"] for row in rows_of(few.folder)] == ["a", "b", "c"]


def test_it_resumes_and_each_piece_ends_within_ten_minutes(few, monkeypatch, capsys):
    started = []

    def run(command, check, timeout):
        started.append((command[-1], timeout))
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(plan_main.subprocess, "run", run)
    plan_main.carry_piece(few, "first")
    plan_main.carry_all(few, 20.0, ["-o", "there"])
    ((name, limit),) = started
    assert name == "second"
    assert limit <= 590
    said = capsys.readouterr().err
    assert "first: is there" in said
    assert "second: was cut off; what it measured is kept" in said


def test_every_model_that_it_names_has_a_twin(tmp_path):
    from dpsim.workload import WorkloadConfig
    from validate.twins import subject_of

    for size in (GPU, SMALL):
        for model in size.models:
            assert subject_of(WorkloadConfig(model=model, batch_per_gpu=1)) is not None
    names = [*Plan(tmp_path, "cpu", "gloo", GPU).pieces()]
    assert names[0] == "node"
    assert {"codecs", "copies", "learners", "trace", "shared"} <= {*names}


def test_the_table_lays_measured_steps_beside_predictions(tmp_path):
    plan = Plan(tmp_path, "cpu", "gloo", SMALL)
    (case,) = [one for one in plan._variants("gpt2") if '"none"' in one.set[1]]
    row = {"what": "step", "model": "gpt2", "set": list(case.set), "peak_bytes": 10**9}
    (tmp_path / "steps-gpt2.jsonl").write_text(
        "\n".join(
            plan_main.json.dumps(each)
            for each in (
                {**row, "step_s": [9.0, 9.0, 9.0, 0.1, 0.3, 0.2]},
                {"what": "step", "model": "gpt2", "set": list(case.set), "failed": "out of memory"},
            )
        )
    )
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(table_of(plan))
    said = console.export_text()
    assert "200 ms" in said  # the median of those after the warm-up
    assert "out of memory" in said
