"""How the program starts and ends: in words and with a code, never with a traceback."""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from collections.abc import Callable
from contextvars import copy_context
from types import FrameType
from typing import Any

_AGAIN_S = 0.02
_INTERRUPTED = 130  # as shells say it: 128 and the signal's number


def start(program: Callable[[], Any]) -> None:
    """Call what ``program`` makes; it ends by SystemExit.

    What users got wrong is one clear message and code 2. Ctrl-C at any moment is "interrupted" and
    code 130.
    """
    try:
        # Imports make hundreds of thousands of objects that stay: looking at them again and again
        # for garbage would be a sixth of a short run, and once more at the end.
        gc.set_threshold(200_000, 50, 100)
        # Before numpy is imported. Matrices are small here: threads of linear algebra would wait
        # for one another on all cores, which is half of what a short run takes of them.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        for stream in (sys.stdout, sys.stderr):
            # A terminal that lacks a letter gets it spelled out.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        # Where the shell has it ignored, as with nohup and &, it stays so.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt)
        # What it is told to say, and what it reads, holds for this command alone.
        copy_context().run(_run, program())
    except KeyboardInterrupt:
        _fail("interrupted", _INTERRUPTED)
    finally:
        if hasattr(signal, "setitimer"):
            # Python would no longer answer it, and die of it.
            signal.setitimer(signal.ITIMER_REAL, 0)
        # DuckDB's module counts at the end what it made, and takes what is frozen for lost.
        if "duckdb" not in sys.modules:
            gc.freeze()


def _run(program: Any) -> None:
    # Importing takes a while, in which users may change their minds.
    from dpsim.base.budget import ask_by_signal
    from dpsim.base.errors import DpsimError
    from dpsim.base.files import files_read, shown_path
    from dpsim.base.terminal import Talk, flush, says

    files_read.set(set())
    ask_by_signal()
    try:
        try:
            program()
        finally:
            flush()
    except SystemExit as ended:
        # Typer makes this of Ctrl-C, without a word.
        if ended.code == _INTERRUPTED:
            raise KeyboardInterrupt from None
        raise
    except DpsimError as error:
        _fail(str(error), error.status)
    except BrokenPipeError:
        # Nobody reads on. What Python flushes when it ends must not meet the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except OSError as error:
        named = f"{shown_path(str(error.filename))}: " if error.filename else ""
        _fail(f"{named}{error.strerror or error}", 1)
    except Exception as error:
        if says(Talk.VERBOSE) or os.environ.get("DPSIM_DEBUG"):
            raise
        _fail(f"failed: {type(error).__name__}: {error} (-v shows where)", 1)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, amid an import only when it is done, or at a second Ctrl-C.

    What is half imported would print a traceback of its own, or swallow the exception.
    """
    is_first = number != signal.SIGINT or signal.getsignal(signal.SIGALRM) is not _interrupt
    while frame is not None and is_first and hasattr(signal, "setitimer"):
        # Every import that is under way has a frame of this on the stack.
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            signal.signal(signal.SIGALRM, _interrupt)
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _fail(message: str, code: int) -> None:
    from dpsim.base.terminal import clear_line

    for line in message.splitlines():
        sys.stderr.write(f"dpsim: {clear_line(line)}\n")
    raise SystemExit(code)
