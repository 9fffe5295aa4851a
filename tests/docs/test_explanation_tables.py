"""The tables of the explanations have a row for each kind; `make golden` adds one that is missing."""

import re

import pytest
from document_blocks import ROOT

from dpsim.scenario import Scenario, fields_of, shape_of

# Page of docs/explanation, and where a scenario has the kinds that its first table lists.
TABLES = {
    "aggregation": "strategy.aggregation",
    "synchronisation": "strategy.sync",
    "overlap": "strategy.overlap",
    "compression": "strategy.compression",
    "topology": "cluster.network",
}
ROWS = re.compile(r"^\| --- .*\n((?:\|.*\n)*)", re.MULTILINE)
EVERY_TABLE = pytest.mark.parametrize("page", TABLES)


def path_of(page):
    return ROOT / "docs" / "explanation" / f"{page}.md"


def missing(page, content):
    """The kinds without a row, with their own descriptions. No compression is none of the codecs."""
    shape = shape_of(Scenario)
    for part in TABLES[page].split("."):
        shape = shape.below(part)
    rows = ROWS.search(content)[1]
    named = re.findall(r"[\w-]+", " ".join(re.findall(r"^\| ([^|(]*)", rows, re.MULTILINE)))
    return {
        kind: fields_of(model)[shape.discriminator].description
        for kind, model in shape.kinds().items()
        if kind not in named and not getattr(model, "exact", False)
    }


@EVERY_TABLE
def test_the_table_has_a_row_for_each_kind(page):
    left_out = missing(page, path_of(page).read_text())
    assert not left_out, f"run 'make golden', and complete the row in {path_of(page)}"


@EVERY_TABLE
def test_a_row_that_is_missing_is_added_below_the_others(page):
    content = path_of(page).read_text()
    rows = ROWS.search(content)[1]
    *others, _last = rows.splitlines(keepends=True)
    without = content.replace(rows, "".join(others))
    kinds = missing(page, without)
    assert len(kinds) >= 1
    assert missing(page, completed(page, without)) == {}
    assert len(completed(page, without).splitlines()) == len(without.splitlines()) + len(kinds)


def completed(page, content):
    """The page with a row for each kind: its name, its description, and nothing in other columns."""
    rows = ROWS.search(content)
    rest = "| " * (rows[0].partition("\n")[0].count("|") - 3)
    new = [
        f"| {kind} | {message[0].lower()}{message[1:].rstrip('.')} {rest}|\n"
        for kind, message in missing(page, content).items()
    ]
    return f"{content[: rows.end()]}{''.join(new)}{content[rows.end() :]}"


if __name__ == "__main__":
    for each in TABLES:
        path_of(each).write_text(completed(each, path_of(each).read_text()))
