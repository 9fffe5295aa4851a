"""User-supplied tables: rows with their lines, and one clear error for an unusable value."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dpsim.base.errors import DpsimError
from dpsim.base.files import strict_csv_rows

_MOST_BYTES = 64 * 2**20
LEAST, MOST = 1e-12, 1e18  # range of plausible measurements, in any unit: others are typos


class NotPredictedError(DpsimError):
    """The reason why a row is not predicted, which begins with its kind in a word or two."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: texts by column, stripped of spaces.

    ``ordinal`` counts the rows of the file from 1.
    """

    path: Path
    line: int
    values: dict[str, str]
    ordinal: int = 1

    def text(self, column: str) -> str:
        """Return the text of ``column``; empty if the table has none."""
        return self.values.get(column, "")

    @property
    def row_id(self) -> str:
        """The row's own name, or its number if the table gives none."""
        return self.text("row_id") or str(self.ordinal)

    def cells(self, columns: Collection[str]) -> dict[str, str]:
        """Return the texts of those ``columns`` that the table has."""
        return {name: self.values[name] for name in columns if name in self.values}

    def key(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the texts of ``columns``, which identify the row; numbers are normalised."""
        return tuple(_plain(self.text(name)) for name in columns)

    def with_texts(self, texts: Mapping[str, str]) -> Row:
        """Return the row with other texts in some columns."""
        return replace(self, values={**self.values, **texts})

    def joined(self, *columns: str) -> str:
        """Return the texts of ``columns`` joined, to search for words."""
        return " | ".join(map(self.text, columns))

    def error(self, column: str, rule: str) -> DpsimError:
        """Return the error for a value of this row that breaks ``rule``."""
        return DpsimError(
            f"{self.path}:{self.line}: {column}: {rule}, but got {self.text(column)!r}"
        )

    def positive(self, column: str) -> float:
        """Return the number in ``column`` of a row.

        Raises DpsimError, with line and column, if it is no number or not above 0.
        """
        try:
            value = float(self.text(column))
        except ValueError:
            raise self.error(column, "must be a number") from None
        if not math.isfinite(value) or value <= 0:
            raise self.error(column, "must be above 0")
        if not LEAST <= value <= MOST:
            raise self.error(column, f"must be from {LEAST:g} to {MOST:g}")
        return value

    def number(self, column: str) -> float | None:
        """Return the number in ``column``; None if it is empty, not above 0 or implausible.

        Raises DpsimError, with line and column, if it is no number.
        """
        text = self.text(column)
        try:
            value = float(text) if text else math.nan
        except ValueError:
            raise self.error(column, "must be a number") from None
        # NaN is in no range.
        return value if LEAST <= value <= MOST else None

    def stated(self, column: str) -> float:
        """Return the number in ``column``.

        Raises NotPredictedError if it is missing, and DpsimError if it is no number.
        """
        value = self.number(column)
        if value is None:
            raise NotPredictedError(f"not stated: {column}")
        return value

    def whole(self, column: str) -> int:
        """Return the whole number in ``column``; raises NotPredictedError if there is none."""
        value = self.stated(column)
        if value != int(value):
            raise NotPredictedError(f"uneven: {column} is {self.text(column)}")
        return int(value)

    def count(self, column: str) -> int:
        """Return the whole number in ``column``, 1 or more.

        Raises DpsimError, with line and column.
        """
        value = self.positive(column)
        if value != int(value):
            raise self.error(column, "must be a whole number")
        return int(value)


def group_rows(rows: Iterable[Row], columns: Sequence[str]) -> dict[tuple[str, ...], list[Row]]:
    """Group the rows by the texts of ``columns``, in order of first appearance."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(row.key(columns), []).append(row)
    return groups


def read_rows(path: Path, required: Collection[str]) -> list[Row]:
    """Return the rows of a CSV file.

    Raises DpsimError for a file that is no CSV, lacks a column or has no rows.
    """
    table = strict_csv_rows(path, _MOST_BYTES, required)
    return [
        Row(path, line, {column: text.strip() for column, text in values.items()}, ordinal)
        for ordinal, (line, values) in enumerate(table, 1)
    ]


def _plain(text: str) -> str:
    try:
        return f"{float(text):g}"
    except ValueError:
        return text
