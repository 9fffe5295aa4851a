"""What the README and the tour of the scenarios quote is what the commands print."""

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from dpsim import cli, load_scenario, simulate
from dpsim.scenario.schema import StrategyConfig

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCUMENTS = (ROOT / "README.md", ROOT / "scenarios" / "tour.md")
QUOTE = re.compile(r"<!-- output of: dpsim (.+?) -->\n```\n(.*?)```", re.DOTALL)
QUOTED = [pytest.param(*quote, id=quote[0]) for document in DOCUMENTS for quote in QUOTE.findall(document.read_text())]


def lines(text):
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.mark.parametrize(("command", "output"), QUOTED)
def test_a_quoted_output_is_the_commands(command, output, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.argv", ["dpsim", *command.split()])
    with pytest.raises(SystemExit):
        cli.main()
    assert lines(output) == lines(capsys.readouterr().out)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_something_is_quoted(document):
    assert QUOTE.search(document.read_text())


@pytest.mark.parametrize("part", ["aggregation", "sync", "overlap"])
def test_the_tour_links_a_scenario_of_every_kind(part):
    linked = sorted(set(re.findall(r"\]\(([\w-]+\.yaml)\)", DOCUMENTS[1].read_text())))
    shown = {getattr(load_scenario(ROOT / "scenarios" / name).strategy, part).kind for name in linked}
    configs = get_args(StrategyConfig.model_fields[part].annotation)
    assert shown == {name for config in configs for name in get_args(config.model_fields["kind"].annotation)}


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


def said(quote: re.Match[str]) -> str:
    """The quote with what its command prints today."""
    command = [Path(sys.executable).with_name("dpsim"), *quote[1].split()]
    printed = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    output = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
    return f"<!-- output of: dpsim {quote[1]} -->\n```\n{output}\n```"


if __name__ == "__main__":
    for each in DOCUMENTS:
        each.write_text(QUOTE.sub(said, each.read_text()))
