"""Uploaded files as files: unpacked within a limit, in a folder that is gone afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from dpsim.base.errors import DpsimError
from dpsim.base.files import unpacked
from dpsim.imports import ImportFileError

MOST_BYTES = 64 * 2**20  # unpacked


@contextmanager
def uploaded_file(name: str, data: bytes) -> Iterator[Path]:
    """The upload ``name`` as a file with nothing beside it.

    Raises DpsimError, with the upload's name and the line where that is known, for what is wrong.
    """
    # No more is unpacked than may be.
    content = unpacked(name, data, MOST_BYTES)
    if not content.strip():
        raise DpsimError(f"{name}: must not be empty")
    with TemporaryDirectory() as folder:
        # Its own name is used for messages alone: it could hold anything.
        path = Path(folder) / "file"
        path.write_bytes(content)
        try:
            yield path
        except ImportFileError as error:
            raise error.of(Path(name)) from None
        except DpsimError as error:
            raise DpsimError(str(error).replace(str(path), name)) from None
