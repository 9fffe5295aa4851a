"""Starts the command line: ``dpsim``, or ``python -m dpsim``."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line; Ctrl-C at any moment ends it with "interrupted" and code 130."""
    # Imports make hundreds of thousands of objects that stay: looking at them again and again for
    # garbage would be a sixth of a short run, and once more at the end.
    gc.set_threshold(200_000, 50, 100)
    try:
        # Importing takes a while, in which users may change their minds.
        from dpsim.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("dpsim: interrupted\n")
        raise SystemExit(130) from None  # as shells say it: 128 and the signal's number
    finally:
        gc.freeze()


if __name__ == "__main__":
    main()
