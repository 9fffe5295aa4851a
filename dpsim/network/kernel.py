"""The loops of this room's C files, compiled when dpsim is installed (``build_loops.py``).

Where there was no compiler, or the library does not load, numpy does the same work more slowly.
"""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from pathlib import Path

_ROOM = Path(__file__).parent
# Seconds of numpy from which a missing library is worth a word.
_MUCH = 1.0
# Seconds of numpy from which flows are shared by the loops; below, one answer on all machines.
MUCH_SHARING = 3.0


def library_of(room: Path = _ROOM) -> Path:
    """Return where the compiled library of the C files in ``room`` is, or is to be.

    Its name tells what it is made of: one of other files is not taken for it.
    """
    made_of = b"\0".join(path.read_bytes() for path in sorted(room.rglob("*.c")))
    return room / "built" / f"loops-{hashlib.sha256(made_of).hexdigest()[:16]}.so"


def kernel(seconds: float = 0.0) -> ctypes.CDLL | None:
    """Return the compiled loops, or None where they cannot be had.

    Says so on stderr, once, where numpy is expected to take many ``seconds`` instead.
    """
    loops = _library()
    if loops is None and seconds >= _MUCH:
        _say_that_it_is_slower()
    return loops


@cache
def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(library_of()))
    except OSError:
        return None


@cache
def _say_that_it_is_slower() -> None:
    from dpsim.base.terminal import narrate

    narrate(
        "note: flows are shared by numpy, up to 40 times more slowly: dpsim was installed without "
        "a C compiler (install one, then dpsim again)"
    )
