"""A scenario's ``sweep``: the varied fields, their values, and how these are combined."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from dpsim.base.config import Config

_PATH = re.compile(r"[^.\[\]\s]+(\.[^.\[\]\s]+|\[[0-9]{1,6}\])*")
_LONGEST_PATH = 200


class ParameterConfig(Config):
    """The values of one varied field: a list, or in random sweeps also a range."""

    values: tuple[Any, ...] | None = Field(
        default=None,
        min_length=1,
        description="List of values, each valid for the field.",
        examples=[[1, 2, 4]],
    )
    low: float | None = Field(default=None, description="Least value of a range, in unit.")
    high: float | None = Field(default=None, description="Largest value of a range, in unit.")
    log: bool = Field(
        default=False,
        description="Draw log-uniformly between low and high, instead of uniformly.",
    )
    unit: str | None = Field(
        default=None,
        min_length=1,
        max_length=32,
        description="Unit of a range, such as Gbit/s; none for plain numbers.",
    )

    @property
    def is_range(self) -> bool:
        """Whether values are drawn between ``low`` and ``high``."""
        return self.values is None

    @model_validator(mode="after")
    def _values_or_range(self) -> ParameterConfig:
        ends = [name for name in ("low", "high") if getattr(self, name) is not None]
        if self.values is None and len(ends) != 2:
            raise ValueError(
                "must have either values, or low and high, but got "
                f"{' and '.join(ends) or 'neither'}"
            )
        if self.values is not None and (ends or self.log or self.unit):
            # Values have their own units, and no range between them to draw from.
            of_a_range = [*ends, *["log"] * self.log, *["unit"] * bool(self.unit)]
            raise ValueError(
                f"must have values without {', '.join(of_a_range)}, which make a range"
            )
        if self.low is not None and self.high is not None:
            _check_range(self.low, self.high, self.log)
        return self


def _check_range(low: float, high: float, log: bool) -> None:
    if low >= high:
        raise ValueError(f"must have low below high, but got {low:g} and {high:g}")
    if log and low <= 0:
        raise ValueError(f"must have low above 0 if log is true, but got {low:g}")


class SweepConfig(Config):
    """Many scenarios in one file: the file's own scenario, with some of its fields varied."""

    method: Literal["grid", "zip", "random"] = Field(
        default="grid",
        description=(
            "grid: every combination, the last parameter fastest; zip: the first values of all, "
            "then the second ones; random: samples draws of each parameter, independent of each "
            "other."
        ),
    )
    parameters: dict[str, ParameterConfig] = Field(
        min_length=1,
        description="Values by the path of the field, as --set takes it.",
        examples=[{"cluster.nodes": {"values": [1, 2, 4]}}],
    )
    samples: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="Number of draws, for random sweeps only."
    )
    seed: NonNegativeInt = Field(
        default=0, description="Seed of the draws; the scenario's own seed is run.seed."
    )
    run_cap: PositiveInt | None = Field(
        default=None,
        description="Maximum number of points to compute, from the first; all if left out.",
    )

    @field_validator("parameters")
    @classmethod
    def _of_the_scenario(cls, parameters: dict[str, ParameterConfig]) -> dict[str, ParameterConfig]:
        for path in parameters:
            if not _PATH.fullmatch(path) or len(path) > _LONGEST_PATH:
                raise ValueError(
                    "must have paths as keys, such as cluster.nodes, but got "
                    f"{path[:_LONGEST_PATH]!r}"
                )
        for path in parameters:
            # A sweep that varied itself would never end.
            section = re.split(r"[.\[]", path)[0]
            if section == "sweep":
                raise ValueError(
                    f"must be fields of the scenario, not of its sweep, but got {path!r}"
                )
        return parameters

    @model_validator(mode="after")
    def _fits_the_method(self) -> SweepConfig:
        # ``samples`` without method random, or the reverse, would be silently ignored.
        if (self.samples is not None) != (self.method == "random"):
            if self.samples is None:
                raise ValueError("must have samples with method random, but got none")
            raise ValueError(
                f"must have no samples with method {self.method}, but got {self.samples}"
            )
        ranges = [path for path, parameter in self.parameters.items() if parameter.is_range]
        if ranges and self.method != "random":
            raise ValueError(
                f"must have values in place of a range for {ranges[0]} (ranges are for random), "
                f"but got method {self.method}"
            )
        if self.method == "zip":
            _check_lengths(
                {path: len(parameter.values or ()) for path, parameter in self.parameters.items()}
            )
        return self


def _check_lengths(lengths: dict[str, int]) -> None:
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{number} of {path}" for path, number in lengths.items())
        raise ValueError(f"must have equally many values of each parameter to zip, but got {got}")
