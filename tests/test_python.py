"""The Python face: every command's answer as a typed value, which notebooks and data frames show."""

import json

import pytest

import dpsim
from dpsim.base.errors import FailedError

FILE = "scenarios/quickstart.yaml"
FEW = ["run.steps=3", "run.warmup=1", "cluster.nodes=2"]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swept")
    return {
        "Result": dpsim.simulate(dpsim.load_scenario(FILE, FEW)),
        "Comparison": dpsim.compare(FILE, ["overlap.kind=buckets,sequential"], overrides=FEW),
        "Scaling": dpsim.scale(FILE, [1, 2], overrides=FEW),
        "Explanation": dpsim.explain(FILE, overrides=FEW),
        "Tuning": dpsim.tune(FILE, over=["overlap.kind=buckets,sequential"], overrides=FEW),
        "CollectiveTimes": dpsim.collective("dgx-a100", ["1 MiB", 2**20, "4M"]),
        "Sweep": dpsim.sweep("scenarios/sweep.yaml", folder, workers=1, overrides=["run.steps=3"]),
    }


KINDS = [
    "Result",
    "Comparison",
    "Scaling",
    "Explanation",
    "Tuning",
    "CollectiveTimes",
    "Sweep",
]


@pytest.mark.parametrize("kind", KINDS)
def test_each_answer_is_a_public_type_whose_repr_is_a_line(answers, kind):
    answer = answers[kind]
    assert type(answer) is getattr(dpsim, kind)
    assert repr(answer).startswith(f"<{kind}")
    assert "\n" not in repr(answer)
    assert len(repr(answer)) < 160


@pytest.mark.parametrize("kind", KINDS)
def test_each_answer_shows_itself_in_a_notebook(answers, kind):
    html = answers[kind]._repr_html_()
    assert html.startswith("<table>")
    assert html.count("<table>") == html.count("</table>")
    figure = answers[kind].plot()
    assert figure.layout.title.text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_each_answer_is_a_data_frame(answers, kind, library):
    pytest.importorskip(library)
    answer = answers[kind]
    frame = getattr(answer, f"to_{library}")()
    rows = answer.to_rows()
    assert len(frame) == len(rows)
    assert list(frame.columns) == list(dict.fromkeys(key for row in rows for key in row))


def test_rows_are_what_the_command_prints_as_csv(answers, dpsim):
    requested = ["--vary", "overlap.kind=buckets,sequential", *(f"--set={each}" for each in FEW)]
    printed = dpsim("compare", FILE, *requested, "--csv")[1].splitlines()
    rows = answers["Comparison"].to_rows()
    assert printed[0].split(",") == list(rows[0])
    assert len(printed) == 1 + len(rows)


def test_a_figure_goes_to_the_file_that_is_named(answers, tmp_path):
    answers["Scaling"].plot(tmp_path / "s.html")
    assert "Plotly.newPlot(" in (tmp_path / "s.html").read_text()


def test_a_data_frame_without_its_library_says_what_to_install(answers, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(FailedError, match="polars is needed: pip install polars"):
        answers["Result"].to_polars()


def test_functions_answer_what_commands_print(answers, dpsim):
    sets = [f"--set={each}" for each in FEW]
    reported = json.loads(dpsim("explain", FILE, *sets, "--json")[1])
    own = answers["Explanation"].to_json()
    assert reported["knobs"] == json.loads(json.dumps(own["knobs"]))
    reported = json.loads(dpsim("collective", "--cluster", "dgx-a100", "-b", "1M", "--json")[1])
    assert reported["rows"] == [
        json.loads(json.dumps(answers["CollectiveTimes"].rows[0].to_json()))
    ]


def test_memory_and_advice():
    use = dpsim.memory(FILE, overrides=["workload.batch_per_gpu=4096"])
    assert isinstance(use, dpsim.MemoryUse)
    assert repr(use).startswith("<MemoryUse of resnet50: ")
    assert not use.fits
    assert 0 < use.largest_batch < 4096
    with pytest.raises(dpsim.DpsimError, match="cannot be read"):
        dpsim.advise("no-such-trace.json")


def test_a_scenario_takes_no_overrides():
    scenario = dpsim.load_scenario(FILE)
    with pytest.raises(TypeError, match="overrides are for a file"):
        dpsim.memory(scenario, overrides=["cluster.nodes=2"])


def test_progress_counts_up():
    done = []
    dpsim.scale(FILE, [1, 2], overrides=FEW, progress=done.append)
    assert done == [1, 2]
