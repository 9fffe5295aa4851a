"""Import torch for the commands that need it.

Gives a hint if it is missing, and silences torch's own logs.
"""

from __future__ import annotations

import os


def torch_first(command: str) -> None:
    """Import torch for a command of ``dpsim validate``.

    Its C++ log is silent unless TORCH_CPP_LOG_LEVEL is set. Raises DpsimError if torch is missing.
    """
    from dpsim.workload import import_torch

    # Read once, when torch is imported.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    import_torch(f"validate {command}")
