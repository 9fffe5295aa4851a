"""Parts common to the answers for all tables: rows that count, rows set apart, and fitted ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar


class Scored(Protocol):
    """A row beside its prediction; ``constants`` says what the constants were fitted on."""

    @property
    def constants(self) -> str:
        """What the prediction's constants were fitted on, in words."""

    def to_json(self) -> dict[str, Any]:
        """Return the row in the command's JSON."""


AnyRow = TypeVar("AnyRow", bound=Scored)
Errors = dict[str, float | int]
Summary = Callable[[Sequence[AnyRow]], Errors]


def constants_of(rows: Iterable[Scored]) -> dict[str, int]:
    """Return the number of rows predicted with each source of constants."""
    return dict(sorted(Counter(row.constants for row in rows).items()))


def rows_json(
    counted: Sequence[AnyRow],
    apart: Sequence[AnyRow],
    fitted: Sequence[AnyRow],
    summary: Summary[AnyRow],
) -> dict[str, Any]:
    """Return the rows in JSON, and the errors of those set apart."""
    return {
        "rows": [row.to_json() for row in counted],
        "rows_apart": [row.to_json() for row in apart],
        "rows_fitted_on": [row.to_json() for row in fitted],
        "overall_apart": summary(apart) if apart else None,
    }
