"""Well-known set-ups, a scenario file each.

The first line is the title, and the comment below it describes what to look at.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from dpsim.base.errors import UnknownNameError

__all__ = ["FIRST", "about", "preset_names", "preset_path", "searched", "short"]

FIRST = "resnet50-32-v100-25gbe"
_GUESSED = 4  # letters of a word that may be misspelt
_DETAIL = re.compile(r"[,:]| \(| with | over ")  # where the detail of a title begins


@cache
def _paths() -> dict[str, Path]:
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml"))}


def preset_names() -> list[str]:
    """Return the names of presets, the first page's first."""
    return sorted(_paths(), key=lambda name: (name != FIRST, name))


def preset_path(name: str) -> Path:
    """Return the file of a preset. Raises UnknownNameError."""
    if name not in _paths():
        raise UnknownNameError("preset", name, _paths())
    return _paths()[name]


def short(name: str) -> str:
    """Return the title of a preset without its detail, for a narrow list."""
    title, _ = about(name)
    return _DETAIL.split(title, maxsplit=1)[0]


def searched(wanted: str) -> list[str]:
    """Return presets that match all words of ``wanted``, in any spelling: ``llama-3``, ``Lama 3``.

    Titles that contain the words in this order come first.
    """
    words = _words(wanted)
    found = [name for name in preset_names() if _speaks_of(name, words)]
    return sorted(found, key=lambda name: "".join(words) not in "".join(_words(about(name)[0])))


def _speaks_of(name: str, words: list[str]) -> bool:
    known = _words(" ".join((name, *about(name))))
    return all(
        any(word.startswith(each) for word in known)
        or (len(each) >= _GUESSED and bool(get_close_matches(each, known, 1, 0.8)))
        for each in words
    )


def _words(text: str) -> list[str]:
    """Split letters and numbers: ``llama``, ``3`` for ``Llama3`` and for ``llama-3``."""
    return re.findall(r"[a-z]+|\d+(?:\.\d+)?", text.lower())


@cache
def about(name: str) -> tuple[str, str]:
    """Return the title of a preset, and what to look at. Raises UnknownNameError."""
    lines = preset_path(name).read_text(encoding="utf-8").splitlines()
    comment = [line.removeprefix("#").strip() for line in lines if line.startswith("#")]
    return comment[0], " ".join(comment[1:])
