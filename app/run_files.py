"""Files of runs that are uploaded: read with a limit, and never more of them than fits."""

from __future__ import annotations

import zlib

from pydantic import ValidationError

from dpsim.base.config import first_problem
from dpsim.base.errors import DpsimError
from validate.records import RunRecord, RunRecords

MOST_BYTES = 20_000_000  # unpacked

_GZIP = b"\x1f\x8b"


def run_records(name: str, data: bytes) -> list[RunRecord]:
    """The records in an uploaded file, JSON or gzipped JSON.

    Raises DpsimError, with line and column where it is no JSON.
    """
    text = unpacked(name, data, "gzipped JSON", MOST_BYTES)
    try:
        return list(RunRecords.model_validate_json(text).runs)
    except ValidationError as error:
        raise DpsimError(f"{name}: {first_problem(error)}") from None


def unpacked(name: str, data: bytes, what: str, most: int) -> bytes:
    """The bytes of a file that may be packed by gzip, of which no more than ``most`` are unpacked.

    Raises DpsimError for more, and where it cannot be unpacked: it is to be ``what``.
    """
    if not data.startswith(_GZIP):
        if len(data) > most:
            raise DpsimError(f"{name}: must be at most {most:,} bytes, but got {len(data):,}")
        return data
    # 16 for gzip's header, 15 for the largest window. Unpacked in one go it could be any size.
    unpacking = zlib.decompressobj(wbits=31)
    try:
        text = unpacking.decompress(data, most)
    except zlib.error as error:
        raise DpsimError(f"{name}: must be {what}, but cannot be unpacked: {error}") from None
    if unpacking.unconsumed_tail:
        raise DpsimError(
            f"{name}: must be at most {most:,} bytes when it is unpacked, but has more"
        )
    return text
