"""The program itself: its version, how much it says, and how it ends."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dpsim as package
from dpsim import cli
from dpsim.base import budget
from dpsim.engine import run_scenario

LONG = ["run", "scenarios/quickstart.yaml", "--set", "run.steps=100000"]


def test_version(dpsim):
    assert dpsim("--version") == (0, f"dpsim {package.__version__}\n", "")


def test_quiet_says_no_more_than_errors_and_verbose_how_long_it_took(dpsim, tmp_path):
    page = tmp_path / "page.html"
    ask = ["run", "scenarios/quickstart.yaml", "--set", "run.steps=3", "--html", page]
    assert f"wrote {page}" in dpsim(*ask)[2]
    assert dpsim(*ask, "-q")[2] == ""
    assert dpsim(*ask, "--verbose")[2].splitlines()[-1].startswith("took ")
    assert "there is no such file" in dpsim("run", tmp_path / "none.yaml", "-q")[2]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_the_commands(shell):
    names = {"bash": "run", "zsh": '"run"', "fish": "run"}
    requested = {
        "_DPSIM_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "dpsim ru",
        "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": "dpsim ru",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    code = "import sys; sys.argv = ['dpsim']; from dpsim.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        env={**os.environ, **requested},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert names[shell] in done.stdout


def test_a_command_is_found_by_its_file(tmp_path, monkeypatch):
    """By its name and the first words of its docstring; helpers and those of the table are not."""
    folder = tmp_path / "commands"
    folder.mkdir()
    (folder / "two_words.py").write_text('"""``dpsim two-words``: say two words."""\n')
    (folder / "more_imports.py").write_text('"""``dpsim import``: more of them."""\n')
    (folder / "run.py").write_text('"""``dpsim run``: in the table."""\n')
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "cli.py"))
    assert cli._found() == {"two-words": "dpsim.commands.two_words:two_words"}


def test_python_m_dpsim_is_dpsim():
    def typed(*words):
        line = [sys.executable, "-m", "dpsim", *words]
        done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    assert typed("catalogue", "gpus", "--json")[0] == 0
    code, out, err = typed("run", "none.yaml")
    assert (code, out) == (2, "")
    assert err.startswith("dpsim: none.yaml: must be a YAML file")


def test_an_output_that_is_the_scenario_is_refused(dpsim, tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(Path("scenarios/quickstart.yaml").read_text())
    before = path.read_bytes()
    code, _, err = dpsim("run", path, "--set", "run.steps=3", "--html", path)
    assert (code, err) == (2, f"dpsim: {path}: must not be a file that is read, but is one\n")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["run", "x.yaml", "-o", "--json"], "-o: must be followed by a value, but got --json"),
        (["run", "x.yaml", "--html", "-q"], "--html: must be followed by a value, but got -q"),
        (["run", "x.yaml", "--set", "--"], "--set: must be followed by a value, but got --"),
        (
            # It would measure for minutes, and write a file of that name.
            ["validate", "node", "-o", "--no-such-option"],
            "-o: must be followed by a value, but got --no-such-option",
        ),
    ],
)
def test_an_option_without_its_value_does_not_take_the_next_one_for_it(dpsim, typed, message):
    assert dpsim(*typed) == (2, "", f"dpsim: {message}\n")


def test_what_is_no_option_is_a_value_though_it_begins_with_dashes(dpsim, tmp_path):
    assert "--x.yaml: must be a YAML file" in dpsim("run", "--", "--x.yaml")[2]
    commented = "-- The best.\nselect 1"
    assert "must be the folder of a sweep" in dpsim("results", tmp_path, "--sql", commented)[2]


@pytest.mark.parametrize(
    "after_s", [pytest.param(after, marks=pytest.mark.wide) for after in (0, 0.3, 1)] + [0.05, 0.6]
)
def test_ctrl_c_ends_with_130_and_a_word_at_any_moment(after_s):
    # Before the program answers Ctrl-C, Python itself would.
    code = """
import signal

from dpsim.cli import main

set_handler = signal.signal

def set_and_say(number, handler):
    set_handler(number, handler)
    print("up", flush=True)

signal.signal = set_and_say
main()
"""
    started = subprocess.Popen(
        [sys.executable, "-c", code, *LONG],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout.readline() == "up\n"
    time.sleep(after_s)
    started.send_signal(signal.SIGINT)
    _, message = started.communicate(timeout=60)
    # Python may end by the signal itself, which shells say as 130.
    assert started.returncode in (130, -signal.SIGINT)
    assert message == "dpsim: interrupted\n"


def test_an_error_that_ctrl_c_became_is_an_interruption():
    # As numpy's comparison of structured arrays, which loses what interrupted it.
    code = """
import contextlib, os, signal

from dpsim.commands.start import run_program

def interrupted():
    with contextlib.suppress(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    raise TypeError("cannot compare")

run_program(lambda: interrupted)
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True
    )
    assert ended.returncode in (130, -signal.SIGINT)
    assert ended.stderr == "dpsim: interrupted\n"


def test_no_alarm_outlives_a_program_that_ends_as_ctrl_c_waits_for_an_import(dpsim):
    signal.setitimer(signal.ITIMER_REAL, 60)
    assert dpsim("run", "--no-such-option")[0] == 2
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_what_ignores_ctrl_c_from_the_start_goes_on():
    command = "trap '' INT HUP; echo; exec \"$0\" -m dpsim run scenarios/quickstart.yaml --json"
    started = subprocess.Popen(
        ["sh", "-c", command, sys.executable], stdout=subprocess.PIPE, text=True
    )
    # From here on the shell, and what it becomes, ignores both.
    assert started.stdout.readline() == "\n"
    time.sleep(0.3)
    started.send_signal(signal.SIGINT)
    started.send_signal(signal.SIGHUP)
    answer, _ = started.communicate(timeout=60)
    assert started.returncode == 0
    assert json.loads(answer)["kind"] == "run"


@pytest.mark.parametrize(
    ("command", "override", "message"),
    [
        ("run", "calibration={step_time: 1000000 s, source: x}", "step_time must be at most"),
        ("layer-split", "workload.batch_per_gpu=1000000000", "at most 1,000,000,000 samples"),
        (
            "run",
            "disturbance.jitter={kind: histogram, table: {values: [1, 2], weights: [1e308, 1e308]}}",
            "weights must add up to at most 1e+150",
        ),
    ],
)
def test_numbers_too_large_are_one_line(dpsim, command, override, message):
    code, _, err = dpsim(command, "scenarios/quickstart.yaml", "--set", override)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_answers_go_to_a_file_and_rows_to_csv(dpsim, tmp_path):
    ask = ["compare", "scenarios/quickstart.yaml", "--vary", "cluster.nodes=1,2"]
    few = ["--set", "run.steps=3"]
    out = tmp_path / "out.json"
    code, printed, message = dpsim(*ask, *few, "-o", out)
    assert (code, printed, message) == (0, "", f"wrote {out}\n")
    rows = json.loads(out.read_text())["rows"]
    code, printed, _ = dpsim(*ask, *few, "--csv")
    reported = [*csv.DictReader(io.StringIO(printed))]
    assert code == 0
    file = tmp_path / "out.csv"
    dpsim(*ask, *few, "-o", file)
    assert file.read_text().splitlines()[0] == printed.splitlines()[0]
    assert [row["variant.cluster.nodes"] for row in reported] == ["2", "1"]
    for row, one in zip(rows, reported, strict=True):
        assert float(one["step_time_s.mean"]) == row["step_time_s"]["mean"]
    # The next command in this process answers as ever.
    again = json.loads(dpsim(*ask, *few, "--json")[1])["rows"]
    assert [row["step_time_s"] for row in again] == [row["step_time_s"] for row in rows]


@pytest.mark.parametrize(
    "command",
    [
        ["explain", "scenarios/quickstart.yaml"],
        ["scale", "scenarios/quickstart.yaml"],
        ["compare", "scenarios/quickstart.yaml", "--vary", "cluster.nodes=1,2,4,8,16,32"],
    ],
)
def test_a_study_as_a_whole_keeps_to_the_limit_of_time(dpsim, monkeypatch, command):
    # Less than the first run takes: the answer notes what is left out after that run.
    monkeypatch.setenv("DPSIM_TIME_LIMIT", "0.001")
    code, out, err = dpsim(*command, "--set", "run.steps=300")
    assert (code, out) == (1, "")
    assert "CPU seconds" in err


@pytest.mark.parametrize(
    ("command", "left_out"),
    [
        (
            ["scale", "--nodes", "1,2,4"],
            "left out: cluster.nodes=4: takes more than 3,600 CPU seconds",
        ),
        (
            ["scale", "--by", "batch", "--batches", "8,16,32"],
            "left out: 4 nodes, 32 samples per GPU: takes more than 3,600 CPU seconds",
        ),
        (
            ["compare", "--vary", "cluster.nodes=1,2,4"],
            "left out: cluster.nodes=4: takes more than 3,600 CPU seconds",
        ),
    ],
)
def test_what_was_simulated_when_time_ends_is_the_answer(dpsim, monkeypatch, command, left_out):
    begun = []

    def slow(*args, **settings):
        begun.append(args)
        if len(begun) > 2:
            budget._limit.get().end = budget._limit.get().look = 0.0
            budget.check()
        return run_scenario(*args, **settings)

    monkeypatch.setattr("dpsim.engine.run.run_scenario", slow)
    monkeypatch.setattr(budget, "_REPORTED_FROM", 0.0)
    name, *options = command
    requested = (name, "scenarios/quickstart.yaml", *options, "--set", "run.steps=3")
    code, out, err = dpsim(*requested)
    assert code == 3
    assert left_out in " ".join(out.split())
    assert re.findall(r"about \d+ CPU seconds, (\d) of 3 tried; .* samples/s", err) == [
        "1",
        "2",
    ]
    begun.clear()
    code, out, _ = dpsim(*requested, "--json")
    answer = json.loads(out)
    assert (code, answer["partial"], len(answer["rows"])) == (3, True, 2)


def test_scale_takes_vectors_for_events_where_these_are_exact(dpsim):
    requested = ("scenarios/quickstart.yaml", "--set", "run.engine=events", "--set", "run.steps=3")
    (row,) = json.loads(dpsim("scale", *requested, "--nodes", "2", "--json")[1])["rows"]
    events = json.loads(dpsim("run", *requested, "--set", "cluster.nodes=2", "--json")[1])
    assert (row["engine"], events["engine"]) == ("vector", "events")
    assert row["step_time_s"]["mean"] == pytest.approx(events["step_time_s"]["mean"], rel=1e-9)


def test_a_model_has_a_bounded_number_of_layers(dpsim, tmp_path):
    sizes = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 10**12,
        "intermediate_size": 128,
        "vocab_size": 1000,
        "max_position_embeddings": 128,
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(sizes))
    model = f"workload.model={{config: {path}}}"
    code, _, err = dpsim("run", "scenarios/quickstart.yaml", "--set", model)
    assert code == 2
    assert "num_hidden_layers must be at most 2,000, but got 1,000,000,000,000" in err


@pytest.mark.parametrize("command", ["run", "check"])
def test_no_code_refuses_what_would_be_run(dpsim, tmp_path, command):
    (tmp_path / "model.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    scenario = Path("scenarios/quickstart.yaml").read_text()
    named = 'model: {torch: "model.py:Net", input: [4]}'
    path = tmp_path / "s.yaml"
    path.write_text(scenario.replace("model: resnet50", named))
    code, out, err = dpsim(command, path, "--no-code")
    assert code == 2
    assert "workload.model.torch: must not be code that is run (--no-code)" in out + err
    assert not (tmp_path / "ran").exists()
    assert dpsim("check", path)[0] == 0


@pytest.fixture
def named(tmp_path):
    """Writes the quickstart in a folder of its own, with a model that is code."""

    def write(factory, sweep=""):
        for folder in (tmp_path, tmp_path / "own"):
            folder.mkdir(exist_ok=True)
            (folder / "model_code.py").write_text(
                f"open({str(tmp_path / 'ran')!r}, 'w').close()\nimport torch\n\n"
                "def build():\n    return torch.nn.Linear(4, 4)\n"
            )
        scenario = Path("scenarios/quickstart.yaml").read_text()
        path = tmp_path / "own" / "s.yaml"
        model = f'model: {{torch: "{factory}", input: [4]}}'
        path.write_text(scenario.replace("model: resnet50", model) + sweep)
        return path

    return write


SWEPT = "\nsweep: {parameters: {run.seed: {values: [0, 1]}}}\n"
OTHER = (
    "\nsweep: {parameters: {workload.model: "
    "{values: [resnet50, {torch: 'model_code.py:build', input: [4]}]}}}\n"
)


@pytest.mark.parametrize("sweep", [SWEPT, OTHER])
@pytest.mark.parametrize("by", ["option", "environment"])
def test_a_sweep_without_code_is_refused_whole(dpsim, tmp_path, monkeypatch, named, sweep, by):
    path = named("model_code.py:build", SWEPT)
    if sweep is OTHER:
        path.write_text(Path("scenarios/quickstart.yaml").read_text() + OTHER)
    if by == "environment":
        monkeypatch.setenv("DPSIM_NO_CODE", "1")
    words = ["--no-code"] if by == "option" else []
    code, _, err = dpsim("sweep", path, "-o", tmp_path / "out", "--workers", 1, *words)
    assert code == 2
    assert "must not be code that is run (--no-code)" in err
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("command", ["run", "check", "memory", "explain", "topology", "tune"])
def test_the_environment_refuses_code_in_every_command(
    dpsim, monkeypatch, tmp_path, named, command
):
    monkeypatch.setenv("DPSIM_NO_CODE", "1")
    code, out, err = dpsim(command, named("model_code.py:build"))
    assert code == 2
    assert "must not be code that is run (--no-code)" in out + err
    assert not (tmp_path / "ran").exists()


@pytest.mark.torch
def test_an_import_of_torch_refuses_code_too(dpsim, tmp_path, named):
    named("model_code.py:build")
    factory = f"{tmp_path / 'own' / 'model_code.py'}:build"
    code, _, err = dpsim("import", "torch", factory, "--input", 4, "--no-code")
    assert (code, err.count("\n")) == (2, 1)
    assert "must not be code that is run (--no-code)" in err
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("where", ["../model_code.py", "{folder}/model_code.py", "link.py"])
def test_code_of_another_folder_is_refused(dpsim, tmp_path, named, where):
    path = named(f"{where.format(folder=tmp_path)}:build")
    (path.parent / "link.py").symlink_to(tmp_path / "model_code.py")
    code, _, err = dpsim("run", path)
    assert code == 2
    assert "workload.model.torch: must be a file in the scenario's own folder" in err
    assert not (tmp_path / "ran").exists()


def test_a_module_of_the_current_folder_is_refused(dpsim, tmp_path, named, monkeypatch):
    path = named("model_code:build")
    monkeypatch.chdir(tmp_path)
    code, _, err = dpsim("run", path)
    assert code == 2
    assert "must be an installed module, or one in the scenario's own folder" in err
    assert not (tmp_path / "ran").exists()


@pytest.mark.torch
def test_code_that_a_scenario_runs_is_named(dpsim, tmp_path, named):
    path = named("model_code.py:build")
    code, _, err = dpsim("run", path, "--json")
    assert code == 0
    assert f"running {path.parent / 'model_code.py'}, the code that the scenario names" in err
    assert (tmp_path / "ran").exists()


def test_a_database_leaves_no_words_of_its_own_on_stderr(tmp_path):
    out = tmp_path / "out"
    package.sweep("scenarios/sweep.yaml", out, overrides=["run.steps=3"], workers=1)
    requested = subprocess.run(
        [sys.executable, "-c", "from dpsim.cli import main; main()", "results", out, "--sql", "x"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert requested.returncode == 2
    assert len(requested.stderr.splitlines()) == 1


def test_a_table_of_parquet_is_a_sweep_s_own(dpsim, tmp_path):
    code, _, err = dpsim("run", "scenarios/quickstart.yaml", "-o", tmp_path / "answer.parquet")
    assert code == 2
    assert err.endswith("but got 'answer.parquet'; a sweep's folder has results.parquet\n")


@pytest.mark.parametrize("command", [[], ["run"], ["import"], ["import", "kineto"]])
def test_help_is_there_by_its_letter(dpsim, command):
    code, out, _ = dpsim(*command, "-h")
    assert code == 0
    assert out.startswith("Usage: ")


SPOILED = """name: spoiled
cluster: {nodes: 0, node: dgx1-v99}
workload: {model: resnet5, batch_per_gpu: -1}
strategy: {sync: {kind: sspp}}
"""


@pytest.mark.parametrize(
    ("args", "mistakes"),
    [
        (["run"], 1),
        (["runn"], 1),
        (["--foo"], 1),
        (["run", "scenarios/quickstart.yaml", "--foo"], 1),
        (["run", "scenarios/quickstart.yaml", "more.yaml"], 1),
        (["run", "scenarios/quickstart.yaml", "--set"], 1),
        (["run", "scenarios/quickstart.yaml", "--set", "cluster.nodes=0"], 1),
        (
            [
                "run",
                "scenarios/quickstart.yaml",
                "--set",
                "cluster.nodes=0",
                "--set",
                "run.seed=-1",
            ],
            2,
        ),
        (["run", "spoiled.yaml"], 5),
        (["run", "none.yaml"], 1),
        (["init", "--nodes", "two"], 1),
        (["validate", "referense"], 1),
        (["validate", "reference"], 1),
        (["import", "deepspeed", "spoiled.yaml"], 1),
        (["collective", "--ranks", "0"], 1),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else str(each),
)
def test_each_mistake_gets_one_line(dpsim, tmp_path, monkeypatch, args, mistakes):
    """README and the tutorial say so; code 2, nothing on stdout, and no list of usage."""
    (tmp_path / "spoiled.yaml").write_text(SPOILED)
    (tmp_path / "scenarios").symlink_to(Path("scenarios").absolute())
    monkeypatch.chdir(tmp_path)
    code, out, err = dpsim(*args)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == mistakes
    assert all(line.startswith("dpsim: ") for line in err.splitlines())


def test_a_mistake_of_usage_says_what_to_ask(dpsim):
    assert dpsim("run")[2] == "dpsim: run: missing argument 'file' (dpsim run --help)\n"
    message = "dpsim: no such command 'runn'. Did you mean 'run'? (dpsim --help)\n"
    assert dpsim("runn")[2] == message
