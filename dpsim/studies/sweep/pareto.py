"""The Pareto front of a sweep in two figures, such as price and time."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.studies.front import pareto_front
from dpsim.studies.sweep.answer import Answer, query

# Columns of common figures: of the requested training, otherwise of a million samples.
_FIGURES = {
    "time": ("total_time_s", "seconds_per_million_samples"),
    "price": ("total_price", "price_per_million_samples"),
    "energy": ("total_energy_kwh", "kwh_per_million_samples"),
    "memory": ("memory_bytes",),
}


_NEARBY = 1.01  # ratio to the least up to which the difference is negligible
_ROUNDING_FACTOR = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Pareto:
    """The columns ``first`` and ``second`` of ``all``, and the rows of their Pareto ``front``."""

    first: str
    second: str
    all: Answer
    front: Answer

    @property
    def notes(self) -> list[str]:
        """Notes on a front with little choice, a sentence each."""
        places = [self.front.columns.index(each) for each in (self.first, self.second)]
        figures = [tuple(row[place] for place in places) for row in self.front.rows]
        if len(set(figures)) == 1 and len(self.all.rows) > 1:
            return [
                f"one point is best in both {self.first} and {self.second}"
                + (f", as are all {len(figures):,} that equal it" if len(figures) > 1 else "")
                + _why_one_best(self.all, self.first, self.second)
            ]
        notes = []
        for column, other in ((self.first, self.second), (self.second, self.first)):
            index = self.front.columns.index(column)
            rows = sorted(self.front.rows, key=lambda row: row[index])
            near = [row for row in rows if row[index] <= _NEARBY * rows[0][index]]
            if len(near) > 1:
                points = ", ".join(str(row[0]) for row in near)
                notes.append(
                    f"points {points} are within {_NEARBY - 1:.0%} of the least {column}: choose "
                    f"among them by {other}"
                )
        return notes


def pareto_points(folder: str | os.PathLike[str], figures: str) -> Pareto:
    """Return the Pareto front of the sweep in ``folder`` for two figures.

    ``figures``: two names separated by a comma, of numeric columns or of `_FIGURES`; less is
    better. The smallest first figure comes first. Raises DpsimError for other names.
    """
    answer = query(folder)
    names = [name.strip() for name in figures.split(",")]
    if len(names) != 2:
        raise DpsimError(f"--pareto: must be two figures, such as price,time, but got {figures!r}")
    columns = [_column(answer, name) for name in names]
    first, second = map(answer.columns.index, columns)
    complete = [row for row in answer.rows if row[first] is not None and row[second] is not None]
    front = pareto_front(complete, lambda row: row[first], lambda row: row[second])
    # Add the points that equal one of the front in both figures.
    places = {(row[first], row[second]): place for place, row in enumerate(front)}
    tied = [row for row in complete if (row[first], row[second]) in places]
    front = sorted(tied, key=lambda row: places[row[first], row[second]])
    return Pareto(columns[0], columns[1], answer, replace(answer, rows=tuple(front)))


def _why_one_best(answer: Answer, first: str, second: str) -> str:
    """Return why one point is best, if all have the same ratio of the two figures."""
    places = [answer.columns.index(each) for each in (first, second)]
    pairs = [[row[place] for place in places] for row in answer.rows]
    ratios = [high / low for low, high in pairs if low and high]
    if max(ratios, default=1.0) > _ROUNDING_FACTOR * min(ratios, default=1.0):
        return ""
    return f": {second} is in proportion to {first} in all points, since it is of as many GPUs"


def _column(answer: Answer, name: str) -> str:
    """Return the numeric column for ``name``. Raises DpsimError if there is none."""
    for column in _FIGURES.get(name, (name,)):
        if column in answer.columns and _are_numbers(_values(answer, column)):
            return column
    called = ", ".join(_FIGURES)
    raise DpsimError(
        f"--pareto: must name a column of numbers, or one of {called}, but got {name!r}"
        + (", which no point has" if name in _FIGURES or name in answer.columns else "")
    )


def _values(answer: Answer, column: str) -> list[Any]:
    index = answer.columns.index(column)
    return [row[index] for row in answer.rows if row[index] is not None]


def _are_numbers(values: list[Any]) -> bool:
    return bool(values) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values
    )
