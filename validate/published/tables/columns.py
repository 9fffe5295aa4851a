"""The public tables in the package, as rows and as columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpsim.base.arrays import BoolArray, FloatArray, IntArray
from dpsim.base.shipped import shipped
from validate.published.tables.csv_file import LEAST, MOST, Row, read_rows

TextArray = npt.NDArray[np.str_]


@dataclass(frozen=True)
class Columns:
    """Columns of text of a packaged table, all of one length."""

    columns: dict[str, TextArray]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def text(self, name: str) -> TextArray:
        """Return a column as text; empty cells if the table lacks it."""
        return self.columns.get(name, np.full(len(self), ""))

    def numbers(self, name: str) -> FloatArray:
        """Return a column as floats, NaN where a cell is empty."""
        cells = self.text(name).tolist()
        return np.array([float(cell) if cell else np.nan for cell in cells], dtype=np.float64)

    def above_zero(self, name: str) -> FloatArray:
        """Return a column as floats, NaN where a cell is empty, not above 0, or implausibly large.

        For measurements that may be missing.
        """
        numbers = self.numbers(name)
        return np.where((numbers >= LEAST) & (numbers <= MOST), numbers, np.nan)

    def where(self, keep: BoolArray | IntArray) -> Columns:
        """Return the chosen rows."""
        return Columns({name: column[keep] for name, column in self.columns.items()})


@cache
def packaged_rows(name: str) -> tuple[Row, ...]:
    """Return the rows of a public table; none if the package was installed without its tables."""
    path = packaged_path(name)
    return tuple(read_rows(path, ())) if path.is_file() else ()


@cache
def packaged_table(name: str, required: tuple[str, ...]) -> Columns:
    """Return a packaged public table, read once and read-only."""
    rows = read_rows(packaged_path(name), required)
    columns = {each: np.array([row.values[each] for row in rows]) for each in rows[0].values}
    for column in columns.values():
        column.flags.writeable = False
    return Columns(columns)


@cache
def constants_file(name: str) -> dict[str, Any]:
    """Return the content of a YAML file of `validate.published`; its keys are text."""
    loaded: dict[str, Any] = shipped(files("validate.published").joinpath(name))
    return loaded


def packaged_path(name: str) -> Path:
    """Return the file of a packaged public table."""
    return Path(str(files("validate.published").joinpath("data", name)))
