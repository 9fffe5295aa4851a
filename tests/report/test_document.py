"""Self-contained pages: how large, what they fetch, and that the library is the figures' own."""

import re

import pytest
from plotly.offline import get_plotlyjs_version

from dpsim.report.pages import document as module
from dpsim.report.pages.document import document, figures_page
from dpsim.report.theme import SURFACES

MOST_BYTES = 1_500_000
PAGES = {
    "run": ["run", "scenarios/quickstart.yaml", "--set", "run.steps=3", "--html"],
    "topology": ["topology", "scenarios/quickstart.yaml", "--html"],
    "converge": ["converge", "scenarios/quickstart.yaml", "--set", "replay.steps=20", "--plot"],
}


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_small_and_hold_the_library_once(dpsim, tmp_path, name, request):
    page = tmp_path / "page.html"
    command = [
        str(request.config.rootpath / word) if word.endswith(".yaml") else word
        for word in PAGES[name]
    ]
    code, _, _ = dpsim(*command, page)
    assert code == 0
    text = page.read_text(encoding="utf-8")
    assert len(text.encode()) <= MOST_BYTES
    assert text.count("plotly.js (basic - minified)") == 1


def test_the_library_is_that_of_the_figures():
    """What plotly writes is drawn by the same version of plotly.js."""
    (version,) = re.findall(r"plotly\.js \(basic - minified\) v([\d.]+)", module._bundle()[:200])
    assert version == get_plotlyjs_version()


def test_titles_are_text_and_nothing_is_fetched():
    page = document("<img src=http://example.org>", "<p>body</p>", figures=False)
    assert "<img" not in page
    assert "default-src 'none'" in page
    assert len(page) < 10_000


def test_a_page_has_the_colours_of_both_modes():
    page = figures_page("nothing", [])
    for surface in SURFACES.values():
        assert f"--background: {surface.background};" in page
        assert f'"paper_bgcolor": "{surface.background}"' in page
