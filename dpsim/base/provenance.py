"""What made a file or an answer, and when: the part of it that differs from run to run."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from platform import python_version

__version__ = version("dpsim")


def provenance() -> dict[str, str]:
    """What made an answer, and when: the `stamp` with Python and numpy, which compute it."""
    import numpy as np  # not loaded where the version of dpsim alone is asked for

    return stamp(python=python_version(), numpy=np.__version__)


def stamp(**versions: str) -> dict[str, str]:
    """The versions that had a part in a result, and when it was made.

    ``versions`` are those of what is not dpsim. The date is UTC, to the second.
    """
    return {
        "dpsim": __version__,
        **versions,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
