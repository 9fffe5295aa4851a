"""Records of measured and predicted times, case by case, and files of many.

Runs write them; calibration and comparisons read them. Depends on nothing else in `validate`.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    Field,
    NonNegativeInt,
    ValidationError,
    field_validator,
    model_validator,
)

from dpsim.base.config import Config, first_problem
from dpsim.base.errors import DpsimError
from dpsim.base.files import read_limited, unpack_gzip
from dpsim.base.terminal import write_whole

# The parts of each side's answer that a record of a step keeps, for `causes`.
OF_A_STEP = ("step_time_s", "parts_s", "overlapped_comm_s", "staleness")
_MOST_BYTES = 64 * 2**20
_MOST_S = 1e12
# Values that no clock measures would make errors infinite or NaN.
_Measured = Annotated[float, Field(ge=1e-12, le=_MOST_S)]


class _Side(BaseModel):
    """One side of a step, predicted or measured."""

    parts_s: dict[str, float] = {}


class _Known(BaseModel):
    """The fields of a case that comparisons read; others are kept unchanged."""

    bytes: NonNegativeInt | None = None
    algorithm: str | list[str] | None = None
    scenario: str | None = None
    set: list[str] | tuple[str, ...] = ()
    predicted: _Side = _Side()
    measured: _Side = _Side()

    @model_validator(mode="after")
    def _alike(self) -> _Known:
        sides = self.predicted.parts_s, self.measured.parts_s
        if all(sides) and sides[0].keys() != sides[1].keys():
            raise ValueError("predicted and measured must have the same parts_s, but have not")
        return self


class RunRecord(Config):
    """One case on real ranks: every measured time and, where there is one, the prediction, in s.

    ``case`` says what it was: of a collective its testbed, operation, algorithm and bytes; of steps
    the scenario.
    """

    schema_version: Literal[1] = 1
    kind: Literal["collective", "step"] = Field(
        description="A collective operation, or the mean step of a training run."
    )
    name: str = Field(
        min_length=1, description="Name of the case in reports; equal names are the same case."
    )
    setting: str = Field(
        default="",
        description="Setting; its cases differ only in the ranked choice, such as the algorithm.",
    )
    case: dict[str, Any] = Field(description="The case's parameters, as plain values.")
    measured_s: tuple[_Measured, ...] = Field(
        min_length=1, description="Seconds of each repetition."
    )
    predicted_s: float | None = Field(
        default=None,
        ge=0,
        le=_MOST_S,
        description="Seconds predicted by the model; null if not predicted yet.",
    )
    fitted: bool = Field(
        default=False,
        description="Whether a calibration was fitted to this record; it then counts in no error.",
    )
    partial: bool = Field(
        default=False,
        description="Whether the run failed before its end; a failed run counts in no error.",
    )
    notes: tuple[str, ...] = Field(default=(), description="Remarks about the run.")

    @field_validator("case")
    @classmethod
    def _as_it_is_read(cls, case: dict[str, Any]) -> dict[str, Any]:
        # Check the fields known here, and keep any that other programs have added.
        _Known.model_validate(case, strict=True)
        return case

    @property
    def median_s(self) -> float:
        """The median of the measured times."""
        return float(np.median(self.measured_s))

    @property
    def error(self) -> float | None:
        """The signed relative error of the prediction: predicted / median measured - 1."""
        return None if self.predicted_s is None else self.predicted_s / self.median_s - 1


class RunRecords(Config):
    """A file of records, with the machine that they were measured on."""

    schema_version: Literal[1] = 1
    kind: Literal["runs"] = "runs"
    machine: dict[str, Any] = Field(default={}, description="Processor, memory, kernel.")
    provenance: dict[str, str] = Field(default={}, description="Versions and the date.")
    runs: tuple[RunRecord, ...]

    def to_json(self) -> str:
        """Return the text of its file."""
        return self.model_dump_json(indent=1) + "\n"


def load_run_records(path: str | os.PathLike[str]) -> RunRecords:
    """Return the records in the file at ``path`` (JSON, gzipped or not), one or many.

    Raises DpsimError.
    """
    return run_records_in(path, read_limited(path, _MOST_BYTES), _MOST_BYTES)


def run_records_in(name: str | os.PathLike[str], content: bytes, most: int) -> RunRecords:
    """Return the records in the bytes of a file, of which at most ``most`` are unpacked.

    Raises DpsimError, which begins with ``name``; with line and column for invalid JSON.
    """
    text = unpack_gzip(name, content, most)
    try:
        return RunRecords.model_validate_json(text)
    except ValidationError as error:
        with suppress(ValidationError):
            return RunRecords(runs=(RunRecord.model_validate_json(text),))
        # A file that is neither gets the error for what it most likely was meant to be: many
        # records.
        raise DpsimError(f"{name}: {first_problem(error)}") from None


def save_run_records(path: Path, records: RunRecords) -> None:
    """Write the file whole, gzipped if its name ends in .gz. Raises DpsimError.

    The same records give the same bytes.
    """
    text = records.to_json()
    if path.suffix == ".gz":
        write_whole(path, gzip.compress(text.encode(), mtime=0))
    else:
        write_whole(path, text)


def records_of(paths: Iterable[str | os.PathLike[str]]) -> list[RunRecord]:
    """Return the records of all files, in order; folders give ``run*.json``, also gzipped.

    A record in a folder uses the scenario file beside it, if there is one. Raises DpsimError.
    """
    records: list[RunRecord] = []
    for path in map(Path, paths):
        if not path.is_dir():
            records += load_run_records(path).runs
            continue
        # Sorted by name, so that reports do not depend on the file system's order.
        files = sorted({*path.rglob("run*.json"), *path.rglob("run*.json.gz")})
        if not files:
            raise DpsimError(f"{path}: must have files run*.json below it, but has none")
        records += [_beside(one, file) for file in files for one in load_run_records(file).runs]
    return records


def _beside(record: RunRecord, file: Path) -> RunRecord:
    """Return the record with its scenario's path replaced by that beside ``file``, if it exists.

    A folder can therefore be moved, and contributed, as it is.
    """
    scenario = record.case.get("scenario")
    if not isinstance(scenario, str) or not (file.parent / Path(scenario).name).exists():
        return record
    case = {**record.case, "scenario": str(file.parent / Path(scenario).name)}
    return record.model_copy(update={"case": case})
