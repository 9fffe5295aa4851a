"""The scenario files that come with dpsim."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

_PACKAGE = Path(__file__).parents[1]
# In the wheel they stand in the package, in a checkout beside it.
_PLACES = (_PACKAGE / "shipped", _PACKAGE.parent / "scenarios")


def shipped() -> dict[str, Path]:
    """The files by their names, which are those of their paths without the ending."""
    folder = next((place for place in _PLACES if place.is_dir()), None)
    if folder is None:
        return {}
    # What stands in folders comes after what stands beside them.
    found = sorted(folder.rglob("*.yaml"), key=lambda path: (len(path.parts), path))
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in found}


def shipped_as(path: str | os.PathLike[str]) -> str | None:
    """The name of the one that ``path`` would be in a checkout, if there is one."""
    asked = PurePath(path).with_suffix("").as_posix().removeprefix("scenarios/")
    return asked if asked in shipped() else None
