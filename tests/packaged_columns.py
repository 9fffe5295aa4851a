"""Columns of the public tables in the package, for tests that compute over whole columns."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from validate.published.tables.csv_file import read_rows
from validate.published.tables.packaged import packaged_path


@dataclass(frozen=True)
class Columns:
    """Columns of text of a packaged table, all of one length."""

    columns: dict[str, np.ndarray]

    def text(self, name):
        """Return a column as text."""
        return self.columns[name]

    def numbers(self, name):
        """Return a column as floats, NaN where a cell is empty."""
        return np.array([float(cell) if cell else np.nan for cell in self.text(name).tolist()])


@cache
def packaged_table(name, required):
    """Return a packaged public table, read once."""
    rows = read_rows(packaged_path(name), required)
    return Columns({each: np.array([row.values[each] for row in rows]) for each in rows[0].values})
