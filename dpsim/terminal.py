"""What commands do with results: tables and JSON on stdout, whole files or none, narration on stderr."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsim.errors import DpsimError

if TYPE_CHECKING:
    from rich.console import RenderableType

_WIDE = 160  # columns


def show(*parts: RenderableType) -> None:
    """Print tables and lines on stdout, as wide as they need to be."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, width=_WIDE)
    for part in parts:
        console.print(part)


def show_json(content: dict[str, Any]) -> None:
    """Print an object as JSON on stdout."""
    json.dump(content, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def narrate(text: str) -> None:
    """Say on stderr what is being done or assumed."""
    sys.stderr.write(f"{text}\n")


def write_whole(path: Path, text: str | bytes) -> None:
    """Write ``text`` to ``path``, in UTF-8, so that others see the old file or the whole new one. Raises DpsimError."""
    if not path.parent.is_dir():
        raise DpsimError(f"{path}: the folder {path.parent} must exist, but does not")
    if path.is_dir():
        raise DpsimError(f"{path}: must be a file, but is a folder")
    temporary = ""
    try:
        with tempfile.NamedTemporaryFile("wb", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = file.name
            file.write(text.encode() if isinstance(text, str) else text)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise DpsimError(f"{path}: cannot be written: {error.strerror}") from None


def _umask() -> int:
    """The process's mask for the rights of new files, which temporary files do not follow."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
