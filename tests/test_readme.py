"""What the README quotes is what the commands print."""

import re
from pathlib import Path

import pytest

from dpsim import cli, load_scenario, simulate

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
QUOTED = re.findall(r"<!-- output of: dpsim (.+?) -->\n```\n(.*?)```", README, re.DOTALL)


def lines(text):
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.mark.parametrize(("command", "output"), QUOTED)
def test_a_quoted_output_is_the_commands(command, output, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.argv", ["dpsim", *command.split()])
    with pytest.raises(SystemExit):
        cli.main()
    assert lines(output) == lines(capsys.readouterr().out)


def test_something_is_quoted():
    assert QUOTED


@pytest.mark.parametrize("gpus", [8, 256, 352])
def test_the_table_of_goyal_et_al_is_what_is_predicted(gpus):
    row = re.search(rf"^\| {gpus} \| ([\d.]+) ms \| ([\d.]+) ms \|", README, re.MULTILINE)
    predicted = simulate(load_scenario(ROOT / "scenarios" / "imagenet" / f"goyal-2017-{gpus}gpus.yaml")).step_time_s["mean"]
    assert f"{predicted * 1e3:.1f}" == row[2]


def test_the_python_example_runs(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(code, {})
    assert "exposed_comm" in capsys.readouterr().out
