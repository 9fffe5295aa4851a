"""Calibration profiles: parameters fitted on measurements, with their errors, what was measured, and how well the fit holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveInt, ValidationError, model_validator

from dpsim.config import Config
from dpsim.errors import DpsimError


class Parameter(Config):
    """A fitted number."""

    value: float = Field(description="The fitted value, in ``unit``.")
    unit: str = Field(description="Its SI unit: s, B/s, or 1 for a plain number.")
    standard_error: float | None = Field(default=None, ge=0, description="Standard deviation of bootstrap fits, in ``unit``.")


class Measured(Config):
    """What was measured: one operation over sizes. Times are the medians or means that the tool printed."""

    operation: str = Field(description="The collective operation, such as all-reduce.")
    ranks: PositiveInt = Field(description="How many ranks took part.")
    hosts: PositiveInt = Field(description="On how many hosts they ran.")
    devices: tuple[str, ...] = Field(description="The kinds of device, each once, as the tool names them.")
    sizes_bytes: tuple[PositiveInt, ...] = Field(min_length=1, description="Bytes of one rank's vector, a row each.")
    times_s: tuple[float, ...] = Field(description="Seconds of each row: out of place where there are both.")
    in_place_times_s: tuple[float | None, ...] = Field(default=(), description="Seconds of each row in place, where measured.")

    @model_validator(mode="after")
    def _one_time_a_size(self) -> Measured:
        if len(self.times_s) != len(self.sizes_bytes):
            raise ValueError(f"times_s must have a time for each of {len(self.sizes_bytes)} sizes, but has {len(self.times_s)}")
        return self


class Residuals(Config):
    """Absolute percentage errors of the fitted model, as fractions: |predicted - measured| / measured."""

    counted_on: Literal["fitted rows", "held-out rows"] = Field(
        description="Whether these rows were also fitted on. If so, the errors say how well the formula describes them, "
        "not how well it predicts."
    )
    n: int = Field(ge=0, description="How many rows.")
    median_ape: float = Field(ge=0)
    mean_ape: float = Field(ge=0)
    p95_ape: float = Field(ge=0)
    worst_ape: float = Field(ge=0)
    worst_bytes: int = Field(ge=0, description="The size of the worst row.")


class CalibrationProfile(Config):
    """Parameters of one kind of model, fitted on one machine."""

    schema_version: Literal[1] = 1
    name: str = Field(min_length=1, description="What predictions that use it call it.")
    kind: str = Field(description="Which model the parameters belong to, such as nccl-tests.")
    formula: str = Field(default="", description="The model, in its parameters.")
    parameters: dict[str, Parameter] = Field(min_length=1)
    measured: Measured
    residuals: Residuals
    provenance: dict[str, str] = Field(default={}, description="Versions, dates and files: what differs from run to run.")

    def to_json(self) -> str:
        """The profile as the text of its file."""
        return self.model_dump_json(indent=2) + "\n"


def load_profile(path: str | os.PathLike[str]) -> CalibrationProfile:
    """The profile in the file at ``path``. Raises DpsimError where there is none, or it is not one."""
    try:
        return CalibrationProfile.model_validate_json(Path(path).read_bytes())
    except OSError as error:
        raise DpsimError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DpsimError(f"{path}: {f'{where}: ' if where else ''}{first['msg'].removeprefix('Value error, ')}") from None
