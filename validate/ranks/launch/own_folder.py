"""A temporary folder that is removed with its process, even after ``kill -9``.

The owner of a folder holds a lock in it, which ends with the process. The next owner removes the
folders whose locks are free.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "dpsim-run-"
_LOCK = ".owner"
_YOUNG_S = 60.0  # a folder without a lock may be about to get one


@contextmanager
def own_folder() -> Iterator[Path]:
    """Remove folders without a living owner, then yield a new one and remove it at the end."""
    _clear()
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as folder,
        open(Path(folder, _LOCK + "-to-be"), "w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.rename(lock.name, Path(folder, _LOCK))  # becomes visible only when locked
        yield Path(folder)


def _clear() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if not folder.is_symlink() and folder.is_dir() and _is_left(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Return whether this user's folder has no living owner."""
    try:
        status = folder.stat()
        if status.st_uid != os.getuid():
            return False
        with open(folder / _LOCK) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return time.time() - status.st_mtime > _YOUNG_S
    except OSError:  # locked, gone, or not readable
        return False
    return True
