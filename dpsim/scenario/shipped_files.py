"""The scenario files that come with dpsim."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

_PACKAGE = Path(__file__).parents[1]
# The folder is inside the package in a wheel, and beside it in a checkout.
_FOLDERS = (_PACKAGE / "shipped", _PACKAGE.parent / "scenarios")


def shipped() -> dict[str, Path]:
    """Return the files by name: their paths without the extension."""
    folder = next((folder for folder in _FOLDERS if folder.is_dir()), None)
    if folder is None:
        return {}
    # Files in subfolders come after files at the top.
    scenario_files = sorted(folder.rglob("*.yaml"), key=lambda path: (len(path.parts), path))
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in scenario_files}


def shipped_as(path: str | os.PathLike[str]) -> str | None:
    """Return the name of the shipped file that ``path`` would be in a checkout, if there is one."""
    name = PurePath(path).with_suffix("").as_posix().removeprefix("scenarios/")
    return name if name in shipped() else None
