"""The page about trust.

Errors as computed, the calibration in use, and files of runs that are uploaded.
"""

import gzip
import json
from pathlib import Path

import pytest
from app_pages import charts, html

import validate.published
from app.pages_.trust import MOST_BYTES
from app.plain import plain
from app.presets import preset_path
from app.published import KEPT, TABLES, published
from dpsim.base.errors import DpsimError
from dpsim.engine import run_scenario
from dpsim.report.text.model_error import within
from dpsim.scenario import load_scenario
from dpsim.studies.explain import trust
from tools.published_errors import MOST_POINTS, compare_table
from validate.published import STEP_KINDS
from validate.records import RunRecord, RunRecords, run_records_in

DATA = Path(validate.published.__file__).parent / "data"
RUNS = RunRecords(
    runs=tuple(
        RunRecord(
            kind="collective",
            name=f"run {n}",
            case={"bytes": n},
            measured_s=(1.0 * n, 1.1 * n),
            predicted_s=1.05 * n,
        )
        for n in (1, 2, 3)
    )
)


@pytest.mark.parametrize("kind", TABLES)
def test_the_summary_has_every_table_with_its_errors(kind):
    table = published()[kind]
    assert table["file"] == TABLES[kind][0]
    assert table["errors"]["n"] > 0
    assert 0 < len(table["rows"]) <= MOST_POINTS
    assert json.loads(KEPT.read_text())["schema_version"] == 1


def errors_text(errors):
    named = ("median_ape", "mean_ape", "p95_ape", "worst_ape")
    shares = [f"{100 * errors[name]:.1f} %" for name in named]
    return [f"{errors['n']:,}", *shares, f"{100 * errors['coverage']:.0f} %"]


@pytest.mark.parametrize("kind", STEP_KINDS)
def test_the_accuracy_page_agrees_with_the_summary(kind):
    text = (Path(__file__).parents[2] / "docs" / "accuracy.md").read_text()
    kept = published()[kind]
    regimes = {"specification": kept["errors"], "calibrated": kept["calibrated"]}
    for regime, errors in regimes.items():
        if errors is not None:
            assert f"| {kind} | {regime} | {' | '.join(errors_text(errors))} |" in text


def test_the_summary_agrees_with_todays_predictions():
    kept, now = published()["vtrain"], compare_table("vtrain", DATA)
    assert kept["errors"] == pytest.approx(now["errors"], rel=1e-3), (
        "python -m tools.published_errors computes it anew"
    )
    assert [row[0] for row in kept["rows"]] == [row.name for row in now["rows"]]


def test_the_page_counts_the_rows_that_the_readme_counts():
    """For each claim of its table but that on real ranks, which is of recorded runs."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    table = readme.split("| what | n | median error | worst | target |\n")[1].split("\n\n")[0]
    message = [line.strip("| ").split(" | ")[1:4] for line in table.splitlines()[1:]]
    kept = []
    for each in published().values():
        regimes = [each["errors"], each["calibrated"] or each["errors"]]
        kept += [(of["n"], of["median_ape"], of["worst_ape"], 1) for of in regimes]
    counted = {
        (f"{n:,}", f"{100 * median:.{digits}f} %", f"{100 * worst:.{shown}f} %")
        for n, median, worst, digits in kept
        for shown in (0, 1)
    }
    assert len(message) == 8
    assert [row for row in message[1:] if tuple(row) not in counted] == []


def test_sources_and_measures_of_the_interval_are_those_of_dpsim_trust(open_page):
    preset = "resnet50-32-v100-25gbe"
    message = trust(run_scenario(load_scenario(preset_path(preset)))).to_json()
    page = open_page("trust", preset=preset)
    low, high = (message["interval_s"][end] for end in ("low", "high"))
    assert f"90% within {within(low, high)}.</p>" in html(page)
    sources, measures, _ = (frame.value for frame in page.dataframe)
    assert [*sources["source of error"]] == [each["name"] for each in message["sources"]]
    assert [*sources["share of variance"]] == [
        f"{each['share']:.0%}" for each in message["sources"]
    ]
    assert [*measures["measure"]] == [each["what"] for each in message["measure"]]
    basis = " ".join(text.value for text in page.caption)
    assert message["interval_s"]["basis"] in basis
    assert all(plain(each) in basis for each in message["nearest"])


def test_an_impossible_scenario_is_refused_above_the_published_tables(open_page):
    page = open_page("trust", set=["workload.batch_per_gpu=512"])
    assert "must fit in the 16.9 GB of v100-sxm2-16gb" in page.error[0].value
    assert charts(page) == 1


@pytest.mark.parametrize("kind", TABLES)
def test_the_page_shows_every_table(open_page, kind):
    page = open_page("trust", choices={"table": kind})
    assert not page.exception
    assert charts(page) == 1


@pytest.mark.parametrize(
    ("preset", "message"),
    [
        ("resnet50-32-v100-25gbe", "from the catalogue's figures, not measured"),
        ("resnet50-256-p100-50gbe", "from a measured step of 191.8 ms"),
    ],
)
def test_the_calibration_in_use_is_shown(open_page, preset, message):
    page = open_page("trust", preset=preset)
    assert any(message in text.value for text in page.caption)


def test_recorded_runs_are_shown(open_page):
    page = open_page("trust", choices={"trust": "recorded runs"})
    assert not page.exception
    assert charts(page) == 1


def test_uploaded_runs_are_compared(open_page):
    page = open_page("trust", choices={"trust": "your own runs"})
    page.file_uploader(key="runs").set_value(
        [("runs.json", RUNS.to_json().encode(), "application/json")]
    ).run()
    assert not page.error
    assert charts(page) == 1


def test_broken_runs_are_an_error_with_line_and_column(open_page):
    page = open_page("trust", choices={"trust": "your own runs"})
    page.file_uploader(key="runs").set_value(
        [("runs.json", b'{"schema_version": 1,\n "runs": [', "application/json")]
    ).run()
    assert "runs.json: Invalid JSON" in page.error[0].value
    assert "line 2 column" in page.error[0].value
    assert not page.exception


def test_gzipped_runs_are_read_up_to_the_limit():
    packed = gzip.compress(RUNS.to_json().encode())
    assert run_records_in("runs.json.gz", packed, MOST_BYTES) == RUNS
    with pytest.raises(DpsimError, match="must be at most 20,000,000 bytes when it is unpacked"):
        run_records_in("bomb.json.gz", gzip.compress(b" " * (MOST_BYTES + 1)), MOST_BYTES)
    with pytest.raises(DpsimError, match="cannot be read: "):
        run_records_in("bad.json.gz", b"\x1f\x8b" + b"x" * 20, MOST_BYTES)
    with pytest.raises(DpsimError, match="cannot be read: "):
        run_records_in("cut.json.gz", gzip.compress(RUNS.to_json().encode())[:-9], MOST_BYTES)


def test_wrong_values_in_runs_are_reported_with_their_path():
    with pytest.raises(
        DpsimError, match=r"runs.json: runs.0.measured_s.0: must be at least 1e-12, but got -1.0"
    ):
        run_records_in("runs.json", RUNS.to_json().replace("1.0,", "-1.0,", 1).encode(), MOST_BYTES)
