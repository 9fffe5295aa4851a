"""Answers as pages, and as pictures by plotly's exporter and a browser."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from dpsim.report.plots import files

QUICK = ("--set", "run.steps=3", "--set", "run.warmup=1", "--set", "cluster.nodes=2")
FILE = "scenarios/quickstart.yaml"
COMMANDS = {
    "run": ["run", FILE, *QUICK],
    "compare": ["compare", FILE, "--vary", "overlap.kind=buckets,sequential", *QUICK],
    "scale": ["scale", FILE, "--nodes", "1,2,4", *QUICK],
    "collective": ["collective", "--cluster", "dgx-a100", "--algorithm", "ring,tree", "-e", "16M"],
    "converge": [
        "converge", FILE, "--set", "replay.model=softmax", "--set", "replay.steps=10",
        "--set", "cluster.nodes=1",
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", [*COMMANDS])
def test_each_command_draws_what_it_prints(dpsim, tmp_path, kind):
    drawn = tmp_path / f"{kind}.html"
    code, out, err = dpsim(*COMMANDS[kind], "--plot", drawn, "--json")
    assert code == 0
    assert f"wrote {drawn}" in err
    assert "Plotly.newPlot(" in drawn.read_text()
    (tmp_path / "answer.json").write_text(out)
    again = tmp_path / "again.html"
    assert dpsim("plot", tmp_path / "answer.json", "-o", again)[0] == 0
    assert without_ids(again) == without_ids(drawn)


def without_ids(page):
    """The page without plotly's names of places, which are random."""
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "", page.read_text())


def test_a_sweep_is_drawn_from_its_folder(dpsim, tmp_path):
    file, page = tmp_path / "s.yaml", tmp_path / "s.html"
    text = Path(FILE).read_text().replace("steps: 50", "steps: 3")
    file.write_text(f"{text}sweep: {{parameters: {{cluster.nodes: {{values: [1, 2]}}}}}}\n")
    folder = tmp_path / "swept"
    code, _, err = dpsim("sweep", file, "-o", folder, "--workers", 1, "--plot", page)
    assert code == 0, err
    assert "nodes 2" in page.read_text()
    assert "nodes 2" in dpsim("plot", folder, "--json")[1]


def test_pictures_are_drawn_by_kaleido_and_a_browser(dpsim, tmp_path):
    pytest.importorskip("kaleido", reason="kaleido is missing (the extra plot)")
    if files._missing():
        pytest.skip("no chromium is installed (Debian: apt-get install chromium)")
    answer, svg, png = (tmp_path / name for name in ("run.json", "run.svg", "run.png"))
    answer.write_text(json.dumps(run_answer()))
    assert dpsim("plot", answer, "-o", svg)[0] == 0
    assert ET.fromstring(svg.read_text()).tag == "{http://www.w3.org/2000/svg}svg"
    assert dpsim("plot", answer, "-o", png)[0] == 0
    assert png.read_bytes().startswith(b"\x89PNG")


def test_a_picture_says_what_it_lacks_before_anything_is_computed(dpsim, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    picture, page = tmp_path / "p.png", tmp_path / "p.html"
    code, out, err = dpsim(*COMMANDS["run"], "--plot", picture)
    assert (code, out) == (1, "")
    assert err == (
        f"dpsim: {picture}: pictures need kaleido and Chrome or Chromium: install the extra from "
        "the checkout: pip install -e '.[plot]'; .html needs neither\n"
    )
    assert dpsim(*COMMANDS["run"], "--plot", page)[0] == 0


def test_a_picture_without_a_browser_says_so(dpsim, tmp_path, monkeypatch):
    pytest.importorskip("choreographer", reason="kaleido is missing (the extra plot)")
    from choreographer.browsers.chromium import Chromium

    monkeypatch.setattr(Chromium, "find_browser", lambda **_: None)
    code, out, err = dpsim(*COMMANDS["run"], "--plot", tmp_path / "p.svg")
    assert (code, out) == (1, "")
    assert "p.svg: pictures need Chrome or Chromium, and none is installed; .html" in err


def run_answer():
    from dpsim import load_scenario, simulate

    few = ["run.steps=3", "run.warmup=1", "cluster.nodes=1"]
    return simulate(load_scenario(FILE, few)).to_json()


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("{}", "a.json", "must be JSON that"),
        ("[1]", "a.json", "must be JSON that"),
        ("no", "a.json", "must be JSON that a command printed, but is not JSON"),
        (
            '{"kind": "converge"}',
            "a.json",
            "must be JSON as a command printed it, but lacks 'name'",
        ),
    ],
)
def test_what_no_command_printed_is_one_line(dpsim, tmp_path, content, name, message):
    file = tmp_path / name
    file.write_text(content)
    code, out, err = dpsim("plot", file)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_other_endings_are_refused_before_anything_is_computed(dpsim, tmp_path):
    code, out, err = dpsim("run", FILE, "--plot", tmp_path / "a.pdf")
    assert (code, out) == (2, "")
    assert "must end in .html, .png, .svg, but got '.pdf'" in err


def test_there_must_be_a_file_to_draw_to(dpsim, tmp_path):
    file = tmp_path / "run.json"
    file.write_text(json.dumps(run_answer()))
    code, out, err = dpsim("plot", file)
    assert (code, out) == (2, "")
    assert "must have -o FILE to draw to, or --json" in err


def test_json_has_the_figure(dpsim, tmp_path):
    file = tmp_path / "run.json"
    file.write_text(json.dumps(run_answer()))
    reported = json.loads(dpsim("plot", file, "--json")[1])
    assert list(reported) == ["schema_version", "kind", "output", "figure"]
    assert reported["figure"]["data"][0]["type"] == "bar"
