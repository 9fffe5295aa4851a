"""The explanations keep their shape, and name no error that accuracy.md does not name."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "explanation").glob("*.md"))
PERCENTAGE = re.compile(r"-?\d[\d.]*(?: / \d[\d.]*)? %")
SECTION = re.compile(r"\]\((?:\.\./)?((?:accuracy|limits)\.md)#([\w-]+)\)")
# Where the documentation states an accuracy; other percentages there are predictions.
GUIDES = [DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md"))]
ERROR = re.compile(r"off by|median|error", re.IGNORECASE)
MOST_LINES = 100


def anchor(heading):
    """What a link to the heading ends with, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def section(page, place):
    """The text of a page of docs/ under the heading that ``place`` links, up to the next one."""
    parts = re.split(r"^#+ (.+)$", (DOCS / page).read_text(), flags=re.MULTILINE)
    found = [
        text
        for heading, text in zip(parts[1::2], parts[2::2], strict=True)
        if anchor(heading) == place
    ]
    assert found, f"{page} has no heading {place!r}"
    return " ".join(found[0].split())


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


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_an_error_in_a_guide_is_that_of_the_section_it_links(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for paragraph in re.split(r"\n\s*\n|\n(?=- )", prose):
        if ERROR.search(paragraph) and not paragraph.startswith("|"):
            text = " ".join(section(*link) for link in SECTION.findall(paragraph))
            missing = [number for number in PERCENTAGE.findall(paragraph) if number not in text]
            assert missing == [], f"in no section that the paragraph links: {paragraph[:80]!r}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_percentage_is_that_of_the_section_it_links(page):
    for paragraph in re.split(r"\n\s*\n|\n(?=- )", page.read_text()):
        output = PERCENTAGE.findall(paragraph)
        text = " ".join(section(*link) for link in SECTION.findall(paragraph))
        missing = [
            number
            for number in output
            if number not in text and number.removeprefix("-") not in TERMS.get(page.stem, ())
        ]
        assert missing == [], f"in no section that the paragraph links: {paragraph[:80]!r}"


TERMS = {"step": ("95 %",), "convergence": ("95 %",)}  # of an interval, which is no error


def test_linked_sections_are_there():
    named = {link for page in PAGES for link in SECTION.findall(page.read_text())}
    assert len(named) >= 4
    assert all(section(*link) for link in named)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_to_a_heading(page):
    for target, place in re.findall(r"\]\(([^)#]+\.md)#([^)]+)\)", page.read_text()):
        headings = re.findall(r"^#+ (.+)$", (page.parent / target).read_text(), re.MULTILINE)
        assert place in {anchor(each) for each in headings}, (target, place)
