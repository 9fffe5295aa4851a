"""Reports: one page that needs nothing else, from what the commands print."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dpsim import DpsimError
from dpsim.report.pages.page import report_page
from dpsim.report.pages.result_files import of_sweep, read_results

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "scenarios" / "quickstart.yaml"
FEW = ["--set", "run.steps=3", "--set", "run.warmup=1"]


class Page(HTMLParser):
    """Headings, cells and items of a page, and whatever it would fetch."""

    def __init__(self, text):
        super().__init__()
        self.at, self.texts, self.fetched = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.at.append(tag)
        self.fetched += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        while self.at and self.at.pop() != tag:
            pass

    def handle_data(self, data):
        if "script" not in self.at and "style" not in self.at and data.strip():
            self.texts.append((self.at[-1] if self.at else "", data.strip()))

    def all(self, tag):
        return [text for at, text in self.texts if at == tag]


HEADINGS = ["Figures", "Assumptions", "Calibration and its error", "Not modelled"]


def test_a_page_over_what_the_commands_print(dpsim, tmp_path):
    commands = {
        "run": ["run", QUICKSTART, *FEW, "--set", "cost.price_per_gpu_hour=2"],
        "scale": ["scale", QUICKSTART, "--nodes", "1,2", *FEW],
        "compare": [
            "compare",
            QUICKSTART,
            "--vary",
            "strategy.aggregation.algorithm=ring,tree",
            *FEW,
        ],
        "collective": [
            "collective",
            "--ranks",
            8,
            "--bandwidth",
            "1 GB/s",
            "--algorithm",
            "ring,tree",
            "-b",
            "1K",
            "-e",
            "1M",
            "-f",
            32,
        ],
    }
    files = []
    for kind, command in commands.items():
        files.append(tmp_path / f"{kind}.json")
        files[-1].write_text(dpsim(*command, "--json")[1])
        assert read_results(files[-1]).kind == kind
    out = tmp_path / "report.html"
    code, message, _ = dpsim("report", *files, "--html", out, "--json")
    assert code == 0
    assert [source["kind"] for source in json.loads(message)["sources"]] == list(commands)
    assert [source["rows"] for source in json.loads(message)["sources"]] == [1, 2, 2, 6]
    text = out.read_text()
    page = Page(text)
    assert page.all("p") == ["How long does a step of quickstart take, and where does its time go?"]
    assert page.all("h2") == [*(f"Results of {file}" for file in files), *HEADINGS]
    assert page.fetched == []
    assert text.count("Plotly.newPlot(") >= 6
    assert "algorithm ring" in page.all("td")
    assert "2 nodes" in page.all("td")
    assert "USD per million samples" in page.all("th")
    assert "90% by the model's error" in page.all("th")
    assert "only one machine with TCP sockets was measured" in page.all("td")
    assert any(
        re.match(r"Errors of the catalogue's compute times: median \d+%", line)
        for line in page.all("li")
    )


def test_the_page_of_a_run_shows_its_timeline_and_the_same_result(dpsim, tmp_path):
    out = tmp_path / "run.html"
    code, message, err = dpsim(
        "run", QUICKSTART, *FEW, "--html", out, "--trace", tmp_path / "trace.json", "--json"
    )
    assert code == 0
    assert json.loads(message)["name"] == "quickstart"
    assert err.splitlines() == [f"wrote {tmp_path / 'trace.json'}", f"wrote {out}"]
    assert len(json.loads((tmp_path / "trace.json").read_text())["traceEvents"]) > 100
    text = out.read_text()
    assert re.search(r"One step of worker \d+ \(typical\)", text)
    shown, _, folded = text.partition("<details")
    assert "(slowest)" not in shown
    assert "(slowest)" in folded
    assert "(fastest)" in folded
    assert "How long steps take: 3 steps of 32 workers" in text
    assert Page(text).all("p") == [
        "How long does a step of quickstart take, and where does its time go?"
    ]


def test_an_explanation_becomes_advice(dpsim, tmp_path):
    explained = tmp_path / "explain.json"
    explained.write_text(dpsim("explain", ROOT / "scenarios" / "ranking-flips.yaml", "--json")[1])
    out = tmp_path / "report.html"
    assert dpsim("report", explained, "--html", out)[0] == 0
    advice = json.loads(explained.read_text())["advice"]
    assert set(advice) <= set(Page(out.read_text()).all("li"))


def test_a_sweep_is_read_from_its_table():
    cells = {"point": 0, "file": "f", "name": "n", "seed": 0, "nodes": 4, "workers": 32}
    cells |= {"step_time_s": 0.2, "compute_s": 0.1, "input_s": 0.0, "encode_s": 0.0}
    cells |= {"exposed_comm_s": 0.1, "straggler_wait_s": 0.0, "other_s": 0.0}
    cells |= {"throughput_samples_per_s": 100.0, "scaling_efficiency": 0.5}
    cells |= {"bytes_sent_per_worker": 10, "notes": "", "calibration": "catalogue"}
    cells |= {f"step_time_{key}_s": 0.2 for key in ("median", "p95", "low", "high")}
    columns, row = list(cells), list(cells.values())
    failed = [1, "f", "n", 0, 8, *[None] * (len(columns) - 5)]
    source = of_sweep("results", columns, [row, failed])
    assert source.labels == ("nodes 4",)
    assert source.rows[0]["parts_s"]["exposed_comm"] == 0.1
    with pytest.raises(
        DpsimError, match="results: must have at least one point that was computed, but has none"
    ):
        of_sweep("results", columns, [failed])
    torn = list({**cells, "scaling_efficiency": None}.values())
    with pytest.raises(DpsimError, match="results: must be JSON as a command printed it, but has"):
        report_page([of_sweep("results", columns, [torn])])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("no JSON", "but is not JSON"),
        (
            "[]",
            "must be JSON that dpsim run, compare, scale, collective or explain printed, but its key "
            "kind names none of these",
        ),
        ('{"rows": []}', "kind names none of these"),
        ('{"kind": ["run"]}', "kind names none of these"),
        ('{"kind": "run"}', "must be JSON as a command printed it, but lacks 'name'"),
        ('{"kind": "compare", "rows": []}', "but has no rows"),
        ('{"kind": "compare", "rows": [{"other": 1}]}', "printed it, but lacks 'variant'"),
        ('{"kind": "explain", "name": NaN}', "but is not JSON"),
        ('{"kind": "compare", "rows": 3}', "but has no rows"),
    ],
)
def test_other_files_are_refused(dpsim, tmp_path, content, problem):
    file = tmp_path / "other.json"
    file.write_text(content)
    code, _, err = dpsim("report", file, "--html", tmp_path / "out.html")
    assert code == 2
    assert err.startswith(f"dpsim: {file}: must be JSON")
    assert problem in err
    assert not (tmp_path / "out.html").exists()


def test_counts_that_no_run_has_are_refused(dpsim, tmp_path):
    file = tmp_path / "many.json"
    row = {"operation": "all-reduce", "algorithm": "ring", "bytes": 10**400, "time_s": 1.0}
    file.write_text(json.dumps({"kind": "collective", "rows": [row]}))
    code, _, err = dpsim("report", file, "--html", tmp_path / "out.html")
    assert code == 2
    assert "but has a value that cannot be shown: int too large to convert to float" in err


def test_parts_of_memory_that_are_none_are_refused(dpsim, tmp_path):
    file = tmp_path / "run.json"
    few = ["--set", "run.steps=2", "--set", "cluster.nodes=1"]
    assert dpsim("run", "scenarios/quickstart.yaml", *few, "-o", file)[0] == 0
    file.write_text(file.read_text().replace('"gradients"', '"gr2001"'))
    code, _, err = dpsim("plot", file)
    assert code == 2
    assert "must be JSON as a command printed it, but lacks 'gr2001'" in err


def test_a_file_that_is_not_there_is_refused(dpsim, tmp_path):
    code, _, err = dpsim("report", tmp_path / "none.json", "--html", tmp_path / "out.html")
    assert code == 2
    assert "cannot be read: No such file or directory" in err


def test_a_study_of_batches_shows_time_and_cost_to_the_target(dpsim, tmp_path):
    study = tmp_path / "scale.json"
    requested = ("--nodes", "1,2", "--by", "batch", "--batches", "16,64", *FEW, "--json")
    code, out, err = dpsim("scale", QUICKSTART, *requested)
    assert code == 0, err
    study.write_text(out)
    page = tmp_path / "page.html"
    assert dpsim("report", study, "--html", page)[0] == 0
    text = page.read_text()
    for title in ("Utilisation against the batch", "Epochs to top-1", "Cost against time"):
        assert title in text
