"""Which of a table's models a name means: "ResNet-50 v1.5" is the ResNet-50, "ResNet-200" none."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SIZES = frozenset({"tiny", "mini", "small", "medium", "large", "huge", "xl", "xxl"})


def model_named(name: str, known: Iterable[str]) -> str | None:
    """The longest of the ``known`` names that begins ``name`` (case folded); None where none does.

    What follows may not make another model of it: a further digit (of "ResNet-20", in
    "ResNet-200") or a size (of "GPT-2", in "GPT-2 XL").
    """
    fitting = [key for key in known if _begins(name.casefold(), key.casefold())]
    return max(fitting, key=len, default=None)


def _begins(name: str, key: str) -> bool:
    if not name.startswith(key):
        return False
    rest = name[len(key) :]
    if key[-1].isdigit() and rest[:1].isdigit():
        return False
    following = re.match(r"[\s-]+(\w+)", rest)
    return following is None or following.group(1) not in _SIZES
