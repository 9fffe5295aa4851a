"""The option ``--timeout`` of the commands that run ranks."""

from __future__ import annotations

from dpsim.base.errors import DpsimError


def timeout_seconds(text: str) -> float:
    """Seconds in the text of ``--timeout``. Raises DpsimError for what is no time above 0."""
    from dpsim.base.units import TIME, parse

    try:
        seconds = parse(text, TIME)
    except DpsimError as error:
        raise DpsimError(f"--timeout: {error}") from None
    if seconds <= 0:
        raise DpsimError(f"--timeout: must be above 0, but got {text!r}")
    return seconds
