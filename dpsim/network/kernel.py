"""The loops of this room's C files, where the machine has a compiler.

They are compiled once, in half a second, into the user's cache. Where there is no compiler, or it
fails, numpy does the same work more slowly.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from dpsim.base.shipped import cache_folder

_SOURCES = sorted(Path(__file__).parent.rglob("*.c"))
# Without fused multiply-adds, which round otherwise than numpy does.
_FLAGS = ("-O3", "-std=c99", "-fPIC", "-shared", "-ffp-contract=off")
_WITHIN = 60  # seconds

# Seconds of numpy from which the loops are asked: compiling them takes half of one, once.
WORTH_COMPILING = 3.0


@cache
def kernel() -> ctypes.CDLL | None:
    """The compiled loops; None where they cannot be had.

    The environment's ``CC`` names another compiler than ``cc``; empty, it names none.
    """
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if not compiler or shutil.which(compiler[0]) is None:
        return None
    made_of = b"\0".join(
        [
            *(path.read_bytes() for path in _SOURCES),
            *map(str.encode, (*compiler, *_FLAGS, platform.platform())),
        ]
    )
    library = cache_folder() / f"kernel-{hashlib.sha256(made_of).hexdigest()[:16]}.so"
    try:
        if not library.exists():
            _compile(compiler, library)
        return ctypes.CDLL(str(library))
    except (OSError, subprocess.SubprocessError):
        return None


def _compile(compiler: list[str], library: Path) -> None:
    library.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / library.name
        command = [*compiler, *_FLAGS, "-o", str(made), *map(str, _SOURCES), "-lm"]
        subprocess.run(command, check=True, capture_output=True, timeout=_WITHIN)
        made.replace(library)  # in one go: another process may look for it now
