"""Tables of step times as columns.

Text as it stands, numbers when they are asked for, the line of each row beside them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpsim.base.arrays import BoolArray, FloatArray, IntArray
from dpsim.base.errors import DpsimError
from dpsim.base.shipped import shipped
from validate.published.tables.csv_file import LEAST, MOST, Row, read_rows

TextArray = npt.NDArray[np.str_]


@dataclass(frozen=True)
class Columns:
    """Columns of text, all of one length. ``line`` and ``path`` say where each row stands."""

    columns: dict[str, TextArray]
    line: IntArray
    path: TextArray

    def __len__(self) -> int:
        return len(self.line)

    def text(self, name: str) -> TextArray:
        """A column as text; empty where the table lacks it."""
        return self.columns.get(name, np.full(len(self), ""))

    def numbers(self, name: str) -> FloatArray:
        """A column as floats, NaN where a cell is empty.

        Raises DpsimError, with line and column, where one is no number.
        """
        cells = self.text(name).tolist()
        try:
            numbers = [float(cell) if cell else np.nan for cell in cells]
        except ValueError:
            # Once more, cell by cell: the error names the line of the first that is none.
            numbers = [self._number(row, name, cell) for row, cell in enumerate(cells)]
        return np.array(numbers, dtype=np.float64)

    def positive(self, name: str) -> FloatArray:
        """A column whose every cell must be a number above 0.

        Raises DpsimError, with line and column, where one is not.
        """
        numbers = self.numbers(name)
        for row in np.flatnonzero(~(np.isfinite(numbers) & (numbers > 0))):
            raise self.error(int(row), name, "must be a number above 0")
        for row in np.flatnonzero((numbers < LEAST) | (numbers > MOST)):
            raise self.error(int(row), name, f"must be from {LEAST:g} to {MOST:g}")
        return numbers

    def above_zero(self, name: str) -> FloatArray:
        """A column as floats, NaN where a cell is empty, not above 0, or beyond all measure.

        Measurements that may be missing.
        """
        numbers = self.numbers(name)
        return np.where((numbers >= LEAST) & (numbers <= MOST), numbers, np.nan)

    def where(self, keep: BoolArray | IntArray) -> Columns:
        """The chosen rows."""
        return Columns(
            {name: column[keep] for name, column in self.columns.items()},
            self.line[keep],
            self.path[keep],
        )

    def error(self, row: int, column: str, rule: str) -> DpsimError:
        """The error for a value that breaks ``rule``."""
        return DpsimError(
            f"{self.path[row]}:{self.line[row]}: {column}: {rule}, but got "
            f"{str(self.text(column)[row])!r}"
        )

    def _number(self, row: int, name: str, cell: str) -> float:
        try:
            return float(cell) if cell else np.nan
        except ValueError:
            raise self.error(row, name, "must be a number") from None


def read_columns(path: Path, required: Collection[str]) -> Columns:
    """The table in a CSV file.

    Raises DpsimError for a file that is none, lacks a column or has no rows.
    """
    rows = read_rows(path, required)
    names = list(rows[0].values)
    columns = {name: np.array([row.values[name] for row in rows], dtype=np.str_) for name in names}
    return Columns(
        columns, np.array([row.line for row in rows], dtype=np.int64), np.full(len(rows), str(path))
    )


@cache
def packaged_rows(name: str) -> tuple[Row, ...]:
    """The rows of a public table; none where the package was installed without its tables."""
    path = Path(str(files("validate.published").joinpath("data", name)))
    return tuple(read_rows(path, ())) if path.is_file() else ()


@cache
def packaged_table(name: str, required: tuple[str, ...]) -> Columns:
    """A public table that stands in the package; it is read once, and nobody can write to it."""
    table = read_columns(Path(str(files("validate.published").joinpath("data", name))), required)
    for column in (*table.columns.values(), table.line, table.path):
        column.flags.writeable = False
    return table


@cache
def constants_file(name: str) -> dict[str, Any]:
    """One of the YAML files that stand beside this module; its keys are text."""
    loaded: dict[str, Any] = shipped(files("validate.published").joinpath(name))
    return loaded
