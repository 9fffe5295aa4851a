"""What the commands of ``dpsim import`` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

T = TypeVar("T")

Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Write it to this file; on stdout if left out."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def read_file(file: Path, parse: Callable[[bytes], T]) -> T:
    """What ``parse`` makes of the file; its errors begin with the file's name and the line."""
    from dpsim.imports import ImportFileError, read_input

    content = read_input(file)
    try:
        return parse(content)
    except ImportFileError as problem:
        raise problem.of(file) from None
