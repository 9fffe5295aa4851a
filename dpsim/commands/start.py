"""Start and end the program: errors are messages with exit codes, never tracebacks."""

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
_INTERRUPTED = 130  # like shells: 128 and the signal's number


def run_program(program: Callable[[], Any]) -> None:
    """Call the command that ``program`` returns; end by SystemExit.

    Users' mistakes give one clear message and code 2. Ctrl-C at any moment gives "interrupted" and
    code 130.
    """
    try:
        # Imports make hundreds of thousands of permanent objects: repeated garbage collection of
        # them would be a sixth of a short run, with another at the end.
        gc.set_threshold(200_000, 50, 100)
        # Set before numpy is imported. Matrices are small here: threads of linear algebra would
        # wait for one another on all cores, half of the CPU time of a short run.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # Pydantic would otherwise search all installed packages for plugins.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        for stream in (sys.stdout, sys.stderr):
            # Escape letters that the terminal's encoding lacks.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        # If the shell ignores Ctrl-C, as with nohup and &, it stays ignored.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt)
        # Settings of output and the list of files read are for this command only.
        copy_context().run(_run, program())
    except KeyboardInterrupt:
        _fail("interrupted", _INTERRUPTED)
    finally:
        if hasattr(signal, "setitimer"):
            # Cancel the timer, because Python no longer handles its signal and would be killed.
            signal.setitimer(signal.ITIMER_REAL, 0)
        # DuckDB's module counts its objects at exit and reports frozen objects as lost.
        if "duckdb" not in sys.modules:
            gc.freeze()


def _run(program: Any) -> None:
    # Imported here, since importing takes a while, in which users may interrupt.
    from dpsim.base.budget import check_by_signal
    from dpsim.base.errors import DpsimError
    from dpsim.base.files import files_read, shown_path
    from dpsim.base.terminal import Verbosity, flush, shows_messages

    files_read.set(set())
    check_by_signal()
    try:
        try:
            program()
        finally:
            flush()
    except SystemExit as ended:
        # Typer turns Ctrl-C into this code, without a message.
        if ended.code == _INTERRUPTED:
            raise KeyboardInterrupt from None
        raise
    except DpsimError as error:
        _fail(str(error), error.status)
    except BrokenPipeError:
        # The reader is gone. Python's flush at exit must not meet the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except OSError as error:
        named = f"{shown_path(str(error.filename))}: " if error.filename else ""
        _fail(f"{named}{error.strerror or error}", 1)
    except Exception as error:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            # C code may turn the KeyboardInterrupt of a call into another error, as numpy does when
            # it compares structured arrays.
            raise KeyboardInterrupt from error
        if shows_messages(Verbosity.VERBOSE) or os.environ.get("DPSIM_DEBUG"):
            raise
        _fail(f"failed: {type(error).__name__}: {error} (-v shows where)", 1)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; during an import only afterwards, or at a second Ctrl-C.

    An interrupted import would print a traceback of its own, or swallow the exception.
    """
    is_first = number != signal.SIGINT or signal.getsignal(signal.SIGALRM) is not _interrupt
    while frame is not None and is_first and hasattr(signal, "setitimer"):
        # Every import in progress has a frame of this file on the stack.
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            signal.signal(signal.SIGALRM, _interrupt)
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            return
        frame = frame.f_back
    # From here on Python's own handler serves, which also tells ``_run`` that Ctrl-C was raised.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    raise KeyboardInterrupt


def _fail(message: str, code: int) -> None:
    from dpsim.base.terminal import clear_line

    for line in message.splitlines():
        sys.stderr.write(f"dpsim: {clear_line(line)}\n")
    raise SystemExit(code)
