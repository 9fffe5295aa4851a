"""Starts the command line: ``dpsim``, or ``python -m dpsim``."""

from __future__ import annotations

import gc
import signal
import sys
from types import FrameType

_AGAIN_S = 0.02


def main() -> None:
    """Run the command line; Ctrl-C at any moment ends it with "interrupted" and code 130."""
    try:
        # Imports make hundreds of thousands of objects that stay: looking at them again and again
        # for garbage would be a sixth of a short run, and once more at the end.
        gc.set_threshold(200_000, 50, 100)
        # Where the shell has it ignored, as with nohup and &, it stays so.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt)
        # Importing takes a while, in which users may change their minds.
        from dpsim.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("dpsim: interrupted\n")
        raise SystemExit(130) from None  # as shells say it: 128 and the signal's number
    finally:
        gc.freeze()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, amid an import only when it is done, or at a second Ctrl-C.

    What is half imported would print a traceback of its own, or swallow the exception.
    """
    is_first = number != signal.SIGINT or signal.getsignal(signal.SIGALRM) is not _interrupt
    while frame is not None and is_first and hasattr(signal, "setitimer"):
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            signal.signal(signal.SIGALRM, _interrupt)
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
