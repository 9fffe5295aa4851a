"""The fenced blocks of a Markdown document, each with the mark that may stand on the line above it.

A mark is an HTML comment, which readers do not see:

``<!-- output -->``          the block is what the commands or the Python of the block before print
``<!-- output of: dpsim … -->``  the block is what this command prints
``<!-- file: NAME -->``      the block is a file, which is written for the blocks that follow
``<!-- exits: 2 -->``        the last command ends with this code
``<!-- needs: torch -->``    carried out where torch (or ``distributed``) is installed;
                             ``testbed``: by the tests of the testbed
``<!-- slow -->``            carried out where Python has a process of its own, since it takes
                             seconds; ``<!-- slow output of: dpsim … -->`` likewise
``<!-- not run: WHY -->``    only shown

Without a mark ``python`` and ``sh`` blocks are run, ``yaml`` blocks are scenarios or parts of one,
which must load, and ``diff`` blocks edit the file that their first line names (``+++ path``), in
the document's copy of the sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "DESIGN.md",
    ROOT / "scenarios" / "tour.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)
_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>.*?) -->\n)?```(?P<language>[\w-]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block.

    The line of its fence, its mark ("" for none), its language, and its text from ``start`` to
    ``end``.
    """

    line: int
    mark: str
    language: str
    text: str
    start: int
    end: int


def blocks(content: str) -> Iterator[Block]:
    """The blocks of a document, in order."""
    for found in _BLOCK.finditer(content):
        start, end = found.span("text")
        yield Block(
            content[:start].count("\n"),
            found["mark"] or "",
            found["language"],
            found["text"],
            start,
            end,
        )


def name(document: Path) -> str:
    """The document's path inside the project."""
    return document.relative_to(ROOT).as_posix()
