"""What made a file or an answer, and when: the part of it that differs from run to run."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version


def stamp(**versions: str) -> dict[str, str]:
    """The version of dpsim, those of what else had a part in it, and the date: UTC, to the second."""
    return {
        "dpsim": version("dpsim"),
        **versions,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
