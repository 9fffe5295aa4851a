"""The documentation as a site: every page in its navigation, every link and anchor holds."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

import dpsim
from dpsim.report.figures.measured_figure import Pair, measured_figure
from dpsim.scenario import shipped
from tools import site


def no_figure(_):
    """Simulations take longer than all the rest, and have a test of their own."""
    return ""


@pytest.mark.wide  # MkDocs reads every module, for 7 s; pages and links have tests of their own
def test_it_builds_without_a_warning(tmp_path, capfd):
    site.lay_out(tmp_path, no_figure)
    assert site.build(tmp_path, tmp_path / "built") == 0, capfd.readouterr()
    text = (tmp_path / "built" / "docs" / "api.html").read_text()
    for name in dpsim.__all__:
        assert name.startswith("_") or f">{name}<" in text
    gallery = (tmp_path / "built" / "scenarios" / "gallery.html").read_text()
    for name in shipped():
        assert f"{name}.yaml" in gallery
    assert 'src="../plotly-basic.min.js"' in gallery
    assert (tmp_path / "built" / "plotly-basic.min.js").exists()


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


def test_a_figure_of_pairs_has_its_band_and_intervals():
    pairs = [Pair("right", 1.0, 1.1, 0.9, 1.3), Pair("missed", 2.0, 4.0, 3.0, 5.0)]
    bare = [pair._replace(low=None, high=None) for pair in pairs]
    for drawn, bars in ((pairs, 2), (bare, 0)):
        figure = measured_figure({"all": drawn}, "time", "s", "t")
        assert figure.data[0].name == "within a factor of 1.25"
        assert sum(trace.error_y.array is not None for trace in figure.data) == bars


def test_a_scenario_is_drawn():
    assert "Plotly.newPlot(" in site.draw_step(shipped()["quickstart"])
