"""The loops of this package's C files, compiled when dpsim is installed (``build_loops.py``).

If there was no compiler, or the library does not load, numpy does the same work more slowly.
"""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent
# A missing library is reported if numpy takes at least this many seconds.
_MUCH = 1.0
# The loops share flows if numpy would take at least this many seconds; below, results do not depend
# on whether they are installed.
MUCH_SHARING = 3.0


def library_of(room: Path = _PACKAGE) -> Path:
    """Return the path of the compiled library of the C files in ``room``.

    Its name contains a hash of the files, so that an outdated library is not used.
    """
    sources = b"\0".join(path.read_bytes() for path in sorted(room.rglob("*.[ch]")))
    return room / "built" / f"loops-{hashlib.sha256(sources).hexdigest()[:16]}.so"


def kernel(seconds: float = 0.0) -> ctypes.CDLL | None:
    """Return the compiled loops, or None if they are not available.

    Warns once, on stderr, if numpy is expected to take many ``seconds`` instead.
    """
    loops = _library()
    if loops is None and seconds >= _MUCH:
        _warn_that_numpy_is_slow()
    return loops


@cache
def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(library_of()))
    except OSError:
        return None


@cache
def _warn_that_numpy_is_slow() -> None:
    from dpsim.base.terminal import narrate

    narrate(
        "note: flows are shared by numpy, up to 40 times more slowly: dpsim was installed without "
        "a C compiler (install one, then dpsim again)"
    )
