"""Options of several validating commands, and their preparation."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from dpsim.base.errors import DpsimError
from dpsim.commands.options import read_option

Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Backend = Annotated[str, typer.Option(help="auto, gloo or nccl.")]


def timeout_seconds(text: str) -> float:
    """Return the seconds of ``--timeout``. Raises DpsimError unless it is a time above 0."""
    from dpsim.base.units import TIME, parse

    seconds = read_option("--timeout", lambda value: parse(value, TIME), text)
    if seconds <= 0:
        raise DpsimError(f"--timeout: must be above 0, but got {text!r}")
    return seconds


def torch_first(command: str) -> None:
    """Import torch for a command of ``dpsim validate``.

    Its C++ log is silent unless TORCH_CPP_LOG_LEVEL is set.

    Raises DpsimError, with a hint, if it is missing.
    """
    from dpsim.workload import import_torch

    # Read once, when torch is imported.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    import_torch(f"validate {command}")
