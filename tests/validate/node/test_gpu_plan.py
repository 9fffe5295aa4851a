"""The plan for a borrowed GPU: pieces that resume, that are cut off, and one table of all."""

import dataclasses
import io
import json
import subprocess

import pytest

pytest.importorskip("torch")

from rich.console import Console

from validate.gpu_plan import __main__ as plan_main
from validate.gpu_plan.pieces import Clock, OutOfTime, Plan
from validate.gpu_plan.sizes import GPU, SMALL
from validate.gpu_plan.table import rows_of, table_of

pytestmark = pytest.mark.torch


class Few(Plan):
    """Two pieces, of which the second fails in the middle."""

    def pieces(self):
        first = [{"what": "a"}, {"what": "b"}]
        return {"node": lambda clock: iter(first), "shared": self._broken}

    def _broken(self, clock):
        yield {"what": "c"}
        raise RuntimeError("the GPU is gone")


@pytest.fixture
def few(tmp_path):
    return Few(tmp_path, "cpu", "gloo", SMALL)


def test_a_piece_that_fails_keeps_what_it_measured(few):
    plan_main.carry_piece(few, "node", 60)
    with pytest.raises(RuntimeError, match="the GPU is gone"):
        plan_main.carry_piece(few, "shared", 60)
    assert sorted(file.name for file in few.folder.iterdir()) == ["node.jsonl", "shared.part"]
    assert [row["what"] for row in rows_of(few.folder)] == ["a", "b", "c"]


def test_half_a_line_of_a_piece_that_was_killed_is_passed_over(few):
    (few.folder / "shared.part").write_text('{"what": "c"}\n{"what": "d", "ti')
    assert [row["what"] for row in rows_of(few.folder)] == ["c"]


def told_to_start(few, minutes, monkeypatch, ending):
    """Which pieces were started, for how many seconds, and when they would be killed."""
    started = []

    def run(command, check, timeout):
        name, seconds = command[-3], float(command[-1])
        started.append((name, seconds, timeout))
        return ending(command, timeout)

    monkeypatch.setattr(plan_main.subprocess, "run", run)
    plan_main.carry_all(few, minutes, ["-o", "there"])
    return started


def cut_off(command, timeout):
    raise subprocess.TimeoutExpired(command, timeout)


def test_it_resumes_and_each_piece_ends_within_ten_minutes(few, monkeypatch, capsys):
    plan_main.carry_piece(few, "node", 60)
    ((name, _, limit),) = told_to_start(few, 20.0, monkeypatch, cut_off)
    assert name == "shared"
    assert limit <= 590
    said = capsys.readouterr().err
    assert "node: is there" in said
    assert "shared: was cut off; what it measured is kept" in said


def test_pieces_share_the_time_that_is_left(few, monkeypatch):
    done = subprocess.CompletedProcess([], 0)
    started = told_to_start(few, 4.0, monkeypatch, lambda command, timeout: done)
    seconds = {name: share for name, share, _ in started}
    # Both are worth as much, and the second has what the first, which took no time, has left.
    assert seconds == {"node": pytest.approx(120, abs=1), "shared": pytest.approx(240, abs=2)}


def test_no_plan_of_a_gpu_is_longer_than_it_may_be(tmp_path):
    plan = Plan(tmp_path, "cuda", "nccl", GPU)
    assert sum(map(plan.share, plan.pieces())) <= 20 * 60


def test_a_piece_goes_on_where_its_time_was_used_up(tmp_path, monkeypatch):
    taken = []

    def carry_out(job, world, compute):
        taken.append(job.scenario.workload.batch_per_gpu)
        return {"step_s": [1.0], "alone_s": 1.0, "peak_bytes": 1, "device_name": "a GPU"}

    monkeypatch.setattr("validate.gpu_plan.pieces.carry_out", carry_out)
    size = dataclasses.replace(SMALL, variants=(("fp32", "eager", "none"),))
    plan = Plan(tmp_path, "cpu", "gloo", size)
    with pytest.raises(OutOfTime, match="the next run goes on here"):
        plan_main.carry_piece(plan, "steps-resnet18", 0)
    assert taken == []
    first = next(plan.pieces()["steps-resnet18"](Clock(60)))
    (tmp_path / "steps-resnet18.part").write_text(json.dumps(first) + "\n")
    plan_main.carry_piece(plan, "steps-resnet18", 60)
    assert taken == [1, 2]  # the batch of 1 once, before it was cut off
    assert len([*rows_of(tmp_path)]) == 2


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
    case, *_ = plan._variants("gpt2")
    row = {"what": "step", "model": "gpt2", "set": list(case.set), "peak_bytes": 10**9}
    (tmp_path / "steps-gpt2.jsonl").write_text(
        "\n".join(
            json.dumps(each)
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
