"""The provenance of a result: software versions and the date, which differ between equal runs."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from platform import python_version

# Not "dpsim", which is another project in the public index.
__version__ = version("dpsim-train")


def provenance() -> dict[str, str]:
    """Return the provenance of an answer: the `stamp` with the versions of Python and numpy."""
    import numpy as np  # not loaded if only the version of dpsim is needed

    return stamp(python=python_version(), numpy=np.__version__)


def stamp(**versions: str) -> dict[str, str]:
    """Return the versions that produced a result, and the date.

    ``versions`` are those of other software than dpsim. The date is UTC, to the second.
    """
    return {
        "dpsim": __version__,
        **versions,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
