"""Answers as pictures without a browser, and as pages."""

import builtins
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from dpsim.base.errors import FailedError
from dpsim.report.plots.figure import answer_figure
from dpsim.report.plots.picture import picture

QUICK = ("--set", "run.steps=3", "--set", "run.warmup=1", "--set", "cluster.nodes=2")
FILE = "scenarios/quickstart.yaml"
ASKED = {
    "run": ["run", FILE, *QUICK],
    "compare": ["compare", FILE, "--vary", "overlap.kind=buckets,sequential", *QUICK],
    "scale": ["scale", FILE, "--nodes", "1,2,4", *QUICK],
    "collective": ["collective", "--cluster", "dgx-a100", "--algorithm", "ring,tree", "-e", "16M"],
    "converge": [
        "converge", FILE, "--set", "replay.model=softmax", "--set", "replay.steps=10",
        "--set", "cluster.nodes=1",
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", [*ASKED])
def test_each_command_draws_what_it_prints(dpsim, tmp_path, kind):
    drawn = tmp_path / f"{kind}.svg"
    code, out, err = dpsim(*ASKED[kind], "--plot", drawn, "--json")
    assert code == 0
    assert f"wrote {drawn}" in err
    root = ET.fromstring(drawn.read_text())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    (tmp_path / "answer.json").write_text(out)
    again = tmp_path / "again.svg"
    assert dpsim("plot", tmp_path / "answer.json", "-o", again)[0] == 0
    assert again.read_bytes() == drawn.read_bytes()


def test_a_sweep_is_drawn_from_its_folder(dpsim, tmp_path):
    file, png = tmp_path / "s.yaml", tmp_path / "s.png"
    text = Path(FILE).read_text().replace("steps: 50", "steps: 3")
    file.write_text(f"{text}sweep: {{parameters: {{cluster.nodes: {{values: [1, 2]}}}}}}\n")
    folder = tmp_path / "swept"
    code, _, err = dpsim("sweep", file, "-o", folder, "--workers", 1, "--plot", png)
    assert code == 0, err
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "nodes 2" in dpsim("plot", folder, "--json")[1]


def test_a_page_needs_no_matplotlib_and_a_picture_says_what_to_type(dpsim, tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    page = tmp_path / "p.html"
    assert dpsim(*ASKED["run"], "--plot", page)[0] == 0
    assert "Where the" in page.read_text()
    code, out, err = dpsim(*ASKED["run"], "--plot", tmp_path / "p.png")
    assert (code, out) == (1, "")
    assert "matplotlib is needed for pictures; install the extra" in err
    assert "'.[plot]'" in err
    with pytest.raises(FailedError):
        picture(answer_figure(run_answer(), "it"), "png")


def run_answer():
    from dpsim import load_scenario, simulate

    few = ["run.steps=3", "run.warmup=1", "cluster.nodes=1"]
    return simulate(load_scenario(FILE, few)).to_json()


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        ("{}", "a.json", "must be JSON that"),
        ("[1]", "a.json", "must be JSON that"),
        ("no", "a.json", "must be JSON that a command printed, but is no JSON"),
        ('{"kind": "converge"}', "a.json", "must be JSON that dpsim converge printed, but name"),
    ],
)
def test_what_no_command_printed_is_one_line(dpsim, tmp_path, content, name, said):
    file = tmp_path / name
    file.write_text(content)
    code, out, err = dpsim("plot", file)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_other_endings_are_refused_before_anything_is_computed(dpsim, tmp_path):
    code, out, err = dpsim("run", FILE, "--plot", tmp_path / "a.pdf")
    assert (code, out) == (2, "")
    assert "must end in .png, .svg, .html, but got '.pdf'" in err


def test_there_must_be_a_file_to_draw_to(dpsim, tmp_path):
    file = tmp_path / "run.json"
    file.write_text(json.dumps(run_answer()))
    code, out, err = dpsim("plot", file)
    assert (code, out) == (2, "")
    assert "must have -o FILE to draw to, or --json" in err


def test_json_has_the_figure(dpsim, tmp_path):
    file = tmp_path / "run.json"
    file.write_text(json.dumps(run_answer()))
    told = json.loads(dpsim("plot", file, "--json")[1])
    assert list(told) == ["schema_version", "kind", "output", "figure"]
    assert told["figure"]["data"][0]["type"] == "bar"
