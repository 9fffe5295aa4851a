"""What the documents show is so.

Commands and Python run, outputs are those quoted, scenarios load, links lead somewhere.
"""

import os
import re
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from document_blocks import DOCUMENTS, ROOT, blocks, name
from document_walk import OUTDATED, Walk, refreshed

HAS = [
    extra
    for extra in ("torch", "distributed")
    if find_spec(extra) or os.environ.get("CI") == "true"
]
EVERY_DOCUMENT = pytest.mark.parametrize("document", DOCUMENTS, ids=name)
APART = ("python", "diff")
IN_PROCESSES = [
    document
    for document in DOCUMENTS
    if any(
        block.language in APART or block.mark.startswith(("needs", "slow"))
        for block in blocks(document.read_text())
    )
]


@EVERY_DOCUMENT
def test_every_block_is_so(document, tmp_path):
    assert problems(document, Walk(tmp_path)) == []


@pytest.mark.wide
@pytest.mark.parametrize("document", IN_PROCESSES, ids=name)
def test_every_block_is_so_in_a_process_of_its_own_with_what_it_needs(document, tmp_path):
    assert problems(document, Walk(tmp_path, HAS, apart=True)) == []


def problems(document, walk):
    return [f"{name(document)}:{problem}" for problem in walk.problems(document.read_text())]


@EVERY_DOCUMENT
def test_every_link_leads_somewhere(document):
    """To a file, and to a heading of it where one is named."""
    targets = re.findall(r"\]\((?!https?://)([^)#\s]*)(?:#([^)]*))?\)", document.read_text())
    paths = [
        (document.parent / target if target else document, heading) for target, heading in targets
    ]
    assert [str(path) for path, _ in paths if not path.exists()] == []
    assert [
        f"{path}#{heading}"
        for path, heading in paths
        if heading and heading not in anchors(path.read_text())
    ] == []


def anchors(content):
    """The names under which the headings of a page are linked, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", content, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_names_every_page():
    index = (ROOT / "docs" / "README.md").read_text()
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page != "README.md" and f"]({page})" not in index] == []


def test_a_document_with_a_block_that_fails_is_left_as_it_is(tmp_path):
    """The second quote's command fails; what was printed before it is not its output."""
    block = "```sh\n{}\n```\n\n<!-- output -->\n```\n{}\n```\n"
    content = block.format("echo one", "1") + block.format("false", "2")
    page = tmp_path / "page.md"
    page.write_text(content)
    assert len(refresh(page)) == 1
    assert page.read_text() == content
    page.write_text(block.format("echo one", "1"))
    assert refresh(page) == []
    assert page.read_text() == block.format("echo one", "one")


def refresh(document):
    """Write the document's quotes anew and return no problems; or leave it, and return them."""
    content = document.read_text()
    with tempfile.TemporaryDirectory() as folder:
        walk = Walk(Path(folder), HAS, apart=True)
        others = [problem for problem in walk.problems(content) if OUTDATED not in problem]
    # After a block that failed, the outputs of those below may be anything.
    if not others:
        document.write_text(refreshed(content, walk.quotes))
    return others


if __name__ == "__main__":
    found = [f"{name(each)}:{problem}" for each in DOCUMENTS for problem in refresh(each)]
    sys.exit("\n".join(found) or 0)
