"""The documentation as a site: every page in its navigation, every link and anchor holds."""

from pathlib import Path

from ruamel.yaml import YAML

import dpsim
from dpsim.commands.scenarios import shipped
from tools import site


def no_picture(scenario, picture):
    """Pictures take longer than all the rest, and have tests of their own."""
    return False


def test_it_builds_without_a_warning(tmp_path, capfd):
    site.lay_out(tmp_path, no_picture)
    assert site.build(tmp_path, tmp_path / "built") == 0, capfd.readouterr()
    text = (tmp_path / "built" / "docs" / "api.html").read_text()
    for name in dpsim.__all__:
        assert name.startswith("_") or f">{name}<" in text
    gallery = (tmp_path / "built" / "scenarios" / "gallery.html").read_text()
    for name in shipped():
        assert f"{name}.yaml" in gallery


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


def test_a_scenario_is_drawn(tmp_path):
    picture = tmp_path / "pictures" / "step.svg"
    assert site.draw_step(shipped()["quickstart"], picture)
    assert "<svg" in picture.read_text()
