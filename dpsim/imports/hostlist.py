"""Slurm's hostlists: ``tux[0-3,12],login`` is tux0, tux1, tux2, tux3, tux12 and login."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from dpsim.imports.reading import ImportFileError

MOST_HOSTS = 2**16
_PART = re.compile(r"[^,\[\]]+|\[[^\[\]]*\]|,")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def expand_hosts(text: str, line: int | None = None) -> list[str]:
    """Return the names of a hostlist, in its order.

    A name may have several ranges in brackets; numbers are padded to the width of the range's
    first. Raises ImportFileError for an invalid hostlist, or more than 65,536 names.
    """
    found: list[str] = []
    for word in _words(text, line):
        pieces = [_numbers(piece, line) if piece[:1] == "[" else [piece] for piece in word]
        for name in product(*pieces):
            found.append("".join(name))
            if len(found) > MOST_HOSTS:
                raise ImportFileError(f"must name at most {MOST_HOSTS:,} hosts", line)
    if not found:  # only commas
        raise _no_hostlist(text, line)
    return found


def _no_hostlist(text: str, line: int | None) -> ImportFileError:
    return ImportFileError(f"must be a hostlist such as tux[0-3,12], but got {text[:60]!r}", line)


def _words(text: str, line: int | None) -> Iterator[list[str]]:
    """Yield the pieces of each name: texts, and ranges in their brackets."""
    pieces = _PART.findall(text)
    if "".join(pieces) != text or not text:
        raise _no_hostlist(text, line)
    word: list[str] = []
    # An additional comma ends the last name like the others.
    for piece in [*pieces, ","]:
        if piece != ",":
            word.append(piece.strip())
        elif word:
            yield word
            word = []


def _numbers(brackets: str, line: int | None) -> list[str]:
    found: list[str] = []
    for part in brackets[1:-1].split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last = (0, -1) if match is None else (int(match[1]), int(match[2] or match[1]))
        if match is None or not 0 <= last - first < MOST_HOSTS:
            raise ImportFileError(
                f"must have ranges such as [0-3,12], but got {brackets[:60]!r}", line
            )
        # Leading zeros are kept: [08-10] is 08, 09, 10.
        found += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
        if len(found) > MOST_HOSTS:
            raise ImportFileError(f"must name at most {MOST_HOSTS:,} hosts", line)
    return found
