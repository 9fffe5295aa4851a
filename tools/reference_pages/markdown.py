"""Markdown from data: tables, headings with anchors, and docstrings as prose."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator

_INDENT = "    "


def page(title: str, made_from: str, lines: Iterable[str]) -> str:
    """Return a page of the reference, which begins with its source."""
    head = [f"# {title}", "", f"Made from {made_from} by `make golden`; do not edit.", ""]
    return "\n".join([*head, *lines]).rstrip("\n") + "\n"


def table(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """Yield a table and the empty line after it.

    Columns that are empty in all rows are left out, and so is a table without rows.
    """
    names, cells = list(headings), [[cell(each) for each in row] for row in rows]
    used = [number for number in range(len(names)) if any(row[number] for row in cells)]
    if not used:
        return
    yield _row([names[number] for number in used])
    yield _row(["---"] * len(used))
    for row in cells:
        yield _row([row[number] for number in used])
    yield ""


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def cell(value: object) -> str:
    """Return a value as the text of one cell: on one line, with bars escaped."""
    return " ".join(str(value).split()).replace("|", "\\|")


def code(values: Iterable[object]) -> str:
    """Return names as code, separated by commas."""
    return ", ".join(f"`{value}`" for value in values)


def heading(level: int, text: str) -> list[str]:
    """Return a heading with the empty line after it."""
    return [f"{'#' * level} {text}", ""]


def anchor(text: str) -> str:
    """Return the link to the heading ``text``, as GitHub generates it."""
    return "#" + re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def prose(docstring: str | None) -> Iterator[str]:
    """Yield a docstring's paragraphs, one per line, each with an empty line after it.

    Indented blocks become code; tables are unchanged.
    """
    for block in re.split(r"\n\s*\n", inspect.cleandoc(docstring or "")):
        if block.startswith(_INDENT):
            yield from ["```", inspect.cleandoc(block), "```"]
        elif block.startswith("|"):
            yield block
        else:
            yield plain(block)
        yield ""


def plain(text: str) -> str:
    """Return a docstring's words on one line, with Markdown's quotes for code.

    Powers are written with ^, since Markdown would render ** as bold.
    """
    return " ".join(text.replace("``", "`").replace("**", "^").split())
