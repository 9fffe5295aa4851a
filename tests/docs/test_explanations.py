"""The explanations keep their shape, and no error that they name is other than the README's."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "explanation").glob("*.md"))
README = (DOCS.parent / "README.md").read_text()
PERCENTAGE = re.compile(r"-?\d[\d.]*(?: / \d[\d.]*)? %")
SECTION = re.compile(r"README, \*(.+?)\*")
MOST_LINES = 100


def section(name):
    """The text of the README under the heading ``name``, up to the next heading of its level or
    above.
    """
    found = re.search(
        rf"^(#+) {re.escape(name)}\n(.*?)(?=^#{{1,3}} |\Z)", README, re.MULTILINE | re.DOTALL
    )
    assert found, f"the README has no heading {name!r}"
    return " ".join(found[2].split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_short_and_says_what_it_assumes_and_does_not_know(page):
    text = page.read_text()
    assert text.startswith("# ")
    assert len(text.splitlines()) <= MOST_LINES
    assumes, unknown = re.search(
        r"^## Assumes\n(.+)^## Does not know\n(.+)", text, re.MULTILINE | re.DOTALL
    ).groups()
    assert assumes.count("\n- ") >= 2
    assert unknown.count("\n- ") >= 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_percentage_is_the_readmes(page):
    for paragraph in re.split(r"\n\s*\n|\n(?=- )", page.read_text()):
        said = PERCENTAGE.findall(paragraph)
        text = " ".join(section(name) for name in SECTION.findall(" ".join(paragraph.split())))
        missing = [
            number
            for number in said
            if number not in text and number.removeprefix("-") not in TERMS.get(page.stem, ())
        ]
        assert missing == [], (
            f"of a section of the README that the paragraph names: {paragraph[:80]!r}"
        )


TERMS = {"step": ("95 %",), "convergence": ("95 %",)}  # of an interval, which is no error


def test_named_sections_are_there():
    named = {name for page in PAGES for name in SECTION.findall(" ".join(page.read_text().split()))}
    assert len(named) >= 4
    assert all(section(name) for name in named)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_to_a_heading(page):
    for target, place in re.findall(r"\]\(([^)#]+\.md)#([^)]+)\)", page.read_text()):
        headings = re.findall(r"^#+ (.+)$", (page.parent / target).read_text(), re.MULTILINE)
        assert place in {
            re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings
        }, (target, place)
