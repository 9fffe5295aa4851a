"""Jitter drawn from a table of measured times, in a file or in the scenario itself.

A CSV file has a column ``value`` (or one column of any name) and optionally ``weight``; a JSON file
holds a list of numbers or an object with ``values`` and optionally ``weights``. Values may have any
unit, because they are divided by their mean.
"""

from __future__ import annotations

import json
import math
from functools import cached_property
from typing import Literal

import numpy as np
from pydantic import Field, PositiveFloat, PrivateAttr, ValidationError, model_validator

from dpsim.base.config import Config, FilePath, first_problem
from dpsim.base.errors import DpsimError
from dpsim.base.files import csv_rows, read_text_limited
from dpsim.disturbance.jitter import Factors, Jitter

_MAX_BYTES = 64 * 2**20


_LARGEST_SUM = 1e150  # small enough that products of two such sums are finite


class Histogram(Config):
    """Measured values and their frequencies."""

    values: tuple[PositiveFloat, ...] = Field(
        min_length=1, description="Measured times or factors, in any unit."
    )
    weights: tuple[PositiveFloat, ...] | None = Field(
        default=None, description="Frequency of each value; equal if left out."
    )

    @model_validator(mode="after")
    def _check_weights(self) -> Histogram:
        if self.weights is not None and len(self.weights) != len(self.values):
            raise ValueError(
                f"weights must be as many as values, {len(self.values)}, but got "
                f"{len(self.weights)}"
            )
        for name, total in (("values", sum(self.values)), ("weights", sum(self.weights or ()))):
            if total > _LARGEST_SUM:
                raise ValueError(f"{name} must add up to at most {_LARGEST_SUM:g}, but exceed it")
        return self

    @cached_property
    def cumulative(self) -> tuple[Factors, Factors]:
        """Factors of mean 1, and their cumulative probabilities."""
        values = np.array(self.values)
        shares = np.ones(len(values)) if self.weights is None else np.array(self.weights)
        shares /= shares.sum()
        return values / (values @ shares), np.cumsum(shares)


# Whole steps of GPT-2 1.5B on 8 H100: 19,932 steps of 1.7 s, the run in which the clock's whole
# milliseconds matter least, detrended and without the loads of files (see jitter.py). 99 % are
# within 0.6 %, one in a hundred is 7 % longer.
MEASURED = Histogram(
    values=(
        0.9961,
        0.9971,
        0.998,
        0.9991,
        1.0,
        1.0009,
        1.002,
        1.0029,
        1.0039,
        1.0059,
        1.0137,
        1.037,
        1.0496,
        1.0724,
        1.0843,
        1.1442,
    ),
    weights=(620, 746, 2823, 4459, 2692, 4133, 2537, 728, 851, 131, 4, 3, 8, 159, 30, 4),
)


class HistogramJitterConfig(Jitter):
    """The factor is drawn from measured values."""

    kind: Literal["histogram"] = Field(
        description="Compute times vary by factors drawn from a table of measurements."
    )
    file: FilePath | None = Field(
        default=None,
        description="CSV or JSON of measured times, relative to the scenario; 8 H100 if left out.",
    )
    table: Histogram | None = Field(
        default=None, description="The table itself, instead of a file."
    )

    _measured: Histogram | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _read_file(self) -> HistogramJitterConfig:
        if self.file is not None and self.table is not None:
            raise ValueError("file and table must not both be given")
        # Read once: a run draws from what was validated, even if the file changes later.
        if self.file is not None:
            self._measured = read_histogram(self.file)
        return self

    def histogram(self) -> Histogram:
        """Return the measured table: of the file, of the scenario, or the default."""
        return self._measured or self.table or MEASURED

    def draw(self, generator: np.random.Generator, steps: int) -> Factors:
        """Draw factors from the table, each as often as it was measured."""
        factors, cumulative = self.histogram().cumulative
        # The shares may add up to slightly less than 1, and a draw may be above their sum.
        indices = np.searchsorted(cumulative, generator.random(steps), side="right")
        drawn: Factors = factors[np.minimum(indices, len(factors) - 1)]
        return drawn


def read_histogram(path: str) -> Histogram:
    """Read the histogram in a CSV or JSON file, chosen by its extension.

    Raises DpsimError, which names the file and the rule.
    """
    values, weights = (_from_json if path.lower().endswith(".json") else _from_csv)(path)

    for name, numbers in (("values", values), ("weights", weights or ())):
        wrong = [number for number in numbers if not 0 < number < math.inf]
        if wrong:
            raise DpsimError(f"{path}: {name} must be positive numbers, but got {wrong[0]}")
    if not values or (weights is not None and len(weights) != len(values)):
        raise DpsimError(
            f"{path}: must hold at least one value, and as many weights as values where it holds "
            "weights"
        )

    try:
        return Histogram(values=values, weights=weights)
    except ValidationError as error:
        raise DpsimError(f"{path}: {first_problem(error)._replace(where='')}") from None


_Numbers = tuple[float, ...]


def _from_json(path: str) -> tuple[_Numbers, _Numbers | None]:
    text = read_text_limited(path, _MAX_BYTES)
    try:
        data = json.loads(text)
        if isinstance(data, list):
            data = {"values": data}
        values, weights = data["values"], data.get("weights")
        # Not isinstance, because true is an int in Python.
        if not all(
            type(each) in (int, float) for numbers in (values, weights or []) for each in numbers
        ):
            raise TypeError
        return tuple(map(float, values)), None if weights is None else tuple(map(float, weights))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DpsimError(
            f"{path}: must be a JSON list of numbers, or an object with lists 'values' and "
            "perhaps 'weights'"
        ) from None


def _from_csv(path: str) -> tuple[_Numbers, _Numbers | None]:
    names, rows = csv_rows(path, _MAX_BYTES)
    only = names[0] if len(names) == 1 else None
    column = "value" if "value" in names else only
    if column is None:
        raise DpsimError(
            f"{path}: must have a column 'value', or one column, but got "
            f"{', '.join(names)[:100] or 'none'}"
        )
    try:
        values = tuple(float(row[column]) for row in rows)
        weights = tuple(float(row["weight"]) for row in rows) if "weight" in names else None
        return values, weights
    except (ValueError, TypeError):
        raise DpsimError(
            f"{path}: columns 'value' and 'weight' must hold numbers from the second line on"
        ) from None
