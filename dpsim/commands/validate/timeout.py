"""The option ``--timeout`` of the commands that run ranks."""

from __future__ import annotations

from dpsim.base.errors import DpsimError
from dpsim.commands.options import read_option


def timeout_seconds(text: str) -> float:
    """Return the seconds in the text of ``--timeout``. Raises DpsimError unless above 0."""
    from dpsim.base.units import TIME, parse

    seconds = read_option("--timeout", lambda value: parse(value, TIME), text)
    if seconds <= 0:
        raise DpsimError(f"--timeout: must be above 0, but got {text!r}")
    return seconds
