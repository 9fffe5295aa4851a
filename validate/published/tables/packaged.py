"""The public tables in the package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from dpsim.base.shipped import shipped_yaml
from validate.published.tables.csv_file import Row, read_rows


@cache
def packaged_rows(name: str) -> tuple[Row, ...]:
    """Return the rows of a public table; none if the package was installed without its tables."""
    path = packaged_path(name)
    return tuple(read_rows(path, ())) if path.is_file() else ()


@cache
def constants_file(name: str) -> dict[str, Any]:
    """Return the content of a YAML file of `validate.published`; its keys are text."""
    loaded: dict[str, Any] = shipped_yaml(files("validate.published").joinpath(name))
    return loaded


def packaged_path(name: str) -> Path:
    """Return the file of a packaged public table."""
    return Path(str(files("validate.published").joinpath("data", name)))
