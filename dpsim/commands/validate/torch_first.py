"""Imports torch for the commands that need it.

With a hint where it is missing, and without its own logs beside our messages.
"""

from __future__ import annotations

import os


def torch_first(command: str) -> None:
    """Imports torch for a command of ``dpsim validate``.

    Its C++ log then is silent unless TORCH_CPP_LOG_LEVEL asks for it.

    Raises DpsimError where it is missing.
    """
    from dpsim.workload import import_torch

    # Read once, when torch is imported.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    import_torch(f"validate {command}")
