"""The documentation as a site: every page in its navigation, every link and anchor holds."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

import dpsim
from app.published import published
from dpsim.report.figures.measured_figure import Pair, measured_figure
from dpsim.scenario import shipped
from tools import site
from tools.measured_page import measured_page, recorded_cases
from validate.records import load_run_records


def no_picture(_, picture):
    """Pictures take longer than all the rest, and have tests of their own."""
    return False


@pytest.mark.wide  # MkDocs reads every module, for 7 s; pages and links have tests of their own
def test_it_builds_without_a_warning(tmp_path, capfd):
    site.lay_out(tmp_path, no_picture, no_picture)
    assert site.build(tmp_path, tmp_path / "built") == 0, capfd.readouterr()
    text = (tmp_path / "built" / "docs" / "api.html").read_text()
    for name in dpsim.__all__:
        assert name.startswith("_") or f">{name}<" in text
    gallery = (tmp_path / "built" / "scenarios" / "gallery.html").read_text()
    for name in shipped():
        assert f"{name}.yaml" in gallery
    measured = (tmp_path / "built" / "docs" / "measured.html").read_text()
    for kind in published():
        assert f'id="{kind}"' in measured


def test_every_page_stands_in_the_navigation():
    def leaves(part):
        values = part.values() if isinstance(part, dict) else part
        return (
            [part] if isinstance(part, str) else [leaf for each in values for leaf in leaves(each)]
        )

    settings = YAML(typ="safe").load((site.ROOT / "tools" / "mkdocs.yml").read_text())
    named = {*leaves(settings["nav"])}
    there = {
        page.relative_to(site.ROOT).as_posix()
        for page in (site.ROOT / "docs").rglob("*.md")
        if Path("docs/site") not in page.relative_to(site.ROOT).parents
    }
    assert there <= named
    assert {"README.md", "DESIGN.md", "scenarios/tour.md", "scenarios/gallery.md"} <= named


def test_errors_beside_pictures_are_those_of_the_tables():
    """Each table and each file of runs has its row and its picture."""
    asked = []

    def drawn(figure, picture):
        asked.append(picture.name)
        return True

    lines = [*measured_page(Path("docs"), drawn)]
    for kind, table in published().items():
        errors = table["errors"]
        (row,) = [line for line in lines if line.startswith(f"| [{kind}](")]
        assert f"| {errors['n']:,} | {errors['median_ape']:.1%} |" in row
        assert f"(measured/{kind}.svg)" in "\n".join(lines)
    assert asked == [
        f"{name}.svg" for name in (*published(), "recorded-collectives", "recorded-steps")
    ]


def test_recorded_runs_that_were_fitted_on_do_not_count():
    cases = {case.name: case for case in recorded_cases()}
    for name in ("steps", "collectives"):
        runs = load_run_records(site.ROOT / "validate" / "recorded" / f"{name}.json.gz").runs
        counted = [run for run in runs if not run.fitted and run.predicted_s]
        assert (
            cases[f"recorded-{name}"].rows == len(cases[f"recorded-{name}"].pairs) == len(counted)
        )
        errors = cases[f"recorded-{name}"].errors
        assert 0 < errors["median_ape"] < errors["p95_ape"]


def test_a_figure_of_pairs_is_drawn_with_its_band_and_intervals(tmp_path):
    pairs = [Pair("right", 1.0, 1.1, 0.9, 1.3), Pair("missed", 2.0, 4.0, 3.0, 5.0)]
    with_intervals, without = tmp_path / "a" / "with.svg", tmp_path / "a" / "without.svg"
    assert site.plot_figure(measured_figure({"all": pairs}, "time", "s", "t"), with_intervals)
    bare = [pair._replace(low=None, high=None) for pair in pairs]
    assert site.plot_figure(measured_figure({"all": bare}, "time", "s", "t"), without)
    assert "#ececec" in without.read_text()
    # An interval is a line of its own in the picture.
    assert with_intervals.read_text().count("LineCollection") == 2
    assert "LineCollection" not in without.read_text()


def test_a_scenario_is_drawn(tmp_path):
    picture = tmp_path / "pictures" / "step.svg"
    assert site.draw_step(shipped()["quickstart"], picture)
    assert "<svg" in picture.read_text()
