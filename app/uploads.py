"""Uploaded files: unpacked up to a limit, in a temporary folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from dpsim.base.errors import DpsimError
from dpsim.base.files import unpacked
from dpsim.imports.reading import ImportFileError

MOST_BYTES = 64 * 2**20  # unpacked


@contextmanager
def uploaded_file(name: str, data: bytes) -> Iterator[Path]:
    """Provide the upload ``name`` as a file in an empty folder.

    Raises DpsimError, with the upload's name and the line if known, for invalid files.
    """
    # Unpack no more than the limit.
    content = unpacked(name, data, MOST_BYTES)
    if not content.strip():
        raise DpsimError(f"{name}: must not be empty")
    with TemporaryDirectory() as folder:
        # Its own name is used only in messages: it could be anything.
        path = Path(folder) / "file"
        path.write_bytes(content)
        try:
            yield path
        except ImportFileError as error:
            raise error.of(Path(name)) from None
        except DpsimError as error:
            raise DpsimError(str(error).replace(str(path), name)) from None
