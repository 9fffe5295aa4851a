"""Files of runs that are uploaded: read with a limit, and never more of them than fits."""

from __future__ import annotations

from pydantic import ValidationError

from dpsim.base.config import first_problem
from dpsim.base.errors import DpsimError
from dpsim.base.files import unpacked
from validate.records import RunRecord, RunRecords

MOST_BYTES = 20_000_000  # unpacked


def run_records(name: str, data: bytes) -> list[RunRecord]:
    """The records in an uploaded file, JSON or gzipped JSON.

    Raises DpsimError, with line and column where it is no JSON.
    """
    text = unpacked(name, data, MOST_BYTES)
    try:
        return list(RunRecords.model_validate_json(text).runs)
    except ValidationError as error:
        raise DpsimError(f"{name}: {first_problem(error)}") from None
