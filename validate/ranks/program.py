"""The program of started ranks: ``python -m validate.ranks.program MODULE WORD...``.

Calls the module's ``as_rank`` with the words. If it raises, the error in one line is the rank's
last words.
"""

import sys
from importlib import import_module


def program(module: str, *words: str) -> tuple[str, ...]:
    """Return the command of ranks that run ``as_rank`` of ``module``."""
    return (sys.executable, "-m", "validate.ranks.program", module, *words)


if __name__ == "__main__":
    from validate.ranks.processes import leave

    try:
        import_module(sys.argv[1]).as_rank(*sys.argv[2:])
    except Exception as error:
        leave(error)
