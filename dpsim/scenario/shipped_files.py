"""The scenario files that come with dpsim."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

_PACKAGE = Path(__file__).parents[1]
# Inside the package in a wheel, beside it in a checkout.
_PLACES = (_PACKAGE / "shipped", _PACKAGE.parent / "scenarios")


def shipped() -> dict[str, Path]:
    """Return the files by name: their paths without the extension."""
    folder = next((place for place in _PLACES if place.is_dir()), None)
    if folder is None:
        return {}
    # Files in subfolders come after files at the top.
    found = sorted(folder.rglob("*.yaml"), key=lambda path: (len(path.parts), path))
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in found}


def shipped_as(path: str | os.PathLike[str]) -> str | None:
    """Return the name of the shipped file that ``path`` would be in a checkout, if there is one."""
    name = PurePath(path).with_suffix("").as_posix().removeprefix("scenarios/")
    return name if name in shipped() else None
