"""A child Python process that runs functions one after the other, and can be killed.

A thread cannot be killed from outside, and a running library does not check the time limit.
Functions that may take long inside one, or must not reach files and networks, run here.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from dpsim.base.budget import (
    OverTimeError,
    available_memory,
    check_by_signal,
    limited,
    over_time,
    time_left,
)
from dpsim.base.errors import DpsimError, FailedError

T = TypeVar("T")

_GRACE = 0.5  # CPU seconds beyond the limit
_LOOKS_EVERY = 0.2  # seconds between two checks that the parent exists
_ANSWER, _ERROR, _REPORT = "answer", "error", "report"
_ERRORS = {kind.__name__: kind for kind in (OverTimeError, FailedError, DpsimError)}


class Child:
    """Runs functions in a separate process, which starts when it is first needed.

    ``prepare`` is a function that the process calls first, outside any time limit. Functions,
    their arguments and their values must be picklable. Threads take turns.
    """

    def __init__(self, prepare: Callable[[], object] | None = None) -> None:
        self._prepare = prepare
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._lock = threading.Lock()

    def run(
        self,
        function: Callable[..., T],
        *args: Any,
        report: Callable[..., object] | None = None,
        seconds: float | None = None,
    ) -> T:
        """Return ``function(*args)``, run in the process.

        With ``report`` the function gets one more argument, whose calls are passed on to it here.
        Calls may take ``seconds`` of CPU time, by default what is left of the limit. An exception
        of ``report`` ends the process, and is raised.

        Raises DpsimError as the function does, and FailedError if it takes more time or memory
        than it may, if it raises anything else, and if the process is ended.
        """
        seconds = time_left() if seconds is None else seconds
        with self._lock:
            process = self._running_process()
            try:
                request = (function, args, report is not None, seconds)
                answer: T = self._request(process, request, report)
                return answer
            except DpsimError:
                raise
            except (EOFError, BrokenPipeError, ValueError) as error:
                # Reading a pipe that another thread closes raises a ValueError.
                is_other = isinstance(error, ValueError) and self._process is process
                self.end()
                if is_other:
                    raise
                raise _exit_error(process.wait(), seconds) from None
            except BaseException:
                self.end()
                raise

    def start(self) -> None:
        """Start the process if there is none, so that the next `run` need not."""
        with self._lock, suppress(FailedError):  # the next `run` then reports it
            self._running_process()

    def end(self) -> None:
        """Kill the process in any state; the next `run` starts another."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _request(
        self,
        process: subprocess.Popen[bytes],
        request: tuple[Any, ...],
        report: Callable[..., object] | None,
    ) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(pickle.dumps(request))
        process.stdin.flush()
        while True:
            kind, content = pickle.load(process.stdout)  # nosec B301 - from our own process
            if kind == _ANSWER:
                return content
            if kind == _ERROR:
                raise _ERRORS[content[0]](content[1])
            assert report is not None
            try:
                report(*content)
            except DpsimError:
                self.end()
                raise

    def _running_process(self) -> subprocess.Popen[bytes]:
        # A fork shares its parent's pipes, and must not use them.
        if self._owner != os.getpid():
            self._process = None
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.end()
        # -P: a file in the current folder must not be imported as a module.
        command = [sys.executable, "-P", "-m", "dpsim.base.child", str(os.getpid())]
        here = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        if not self._owner:
            atexit.register(self.end)
        self._owner = os.getpid()
        if self._prepare is not None:
            try:
                self._request(self._process, (self._prepare, (), False, float("inf")), None)
            except (EOFError, BrokenPipeError, ValueError):  # as in `run`
                self.end()
                raise FailedError("its process ended before it began") from None
        return self._process


def _exit_error(code: int, seconds: float) -> FailedError:
    if hasattr(signal, "SIGVTALRM") and code == -signal.SIGVTALRM:
        return over_time(seconds)
    if code < 0:
        with suppress(ValueError):
            return FailedError(f"ended by the system ({signal.Signals(-code).name})")
    return FailedError(f"its process ended (code {code})")


def _kind(error: DpsimError) -> str:
    """Return the name of the nearest of `_ERRORS`; other errors need more than a message."""
    return next(name for name, kind in _ERRORS.items() if isinstance(error, kind))


@cache
def end_with(parent: int) -> None:
    """Watch ``parent`` from now on, and end this process soon after it has gone.

    The watch works even while this process waits for work.
    """

    # A killed parent cannot end its workers, which would keep their memory, and continue with work
    # that another process may do by now.
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOKS_EVERY)
        # sys.exit would end only this thread, and wait for the work.
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="watches the parent").start()


def _serve(parent: int) -> None:
    """Run the requests from stdin until it ends."""
    # Ctrl-C reaches all processes of a terminal, but only the parent decides to end this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not mix with answers
    end_with(parent)
    check_by_signal()
    _hold_memory()

    def send(kind: str, content: object) -> None:
        # Pickle the content first, so that nothing is written if it is not picklable.
        answers.write(pickle.dumps((kind, content)))
        answers.flush()

    while True:
        try:
            function, args, reports, seconds = pickle.load(sys.stdin.buffer)  # nosec B301 - ours
        except EOFError:
            return
        if reports:
            args = (*args, lambda *content: send(_REPORT, content))
        try:
            send(_ANSWER, _call_limited(function, args, seconds))
        except DpsimError as error:
            send(_ERROR, (_kind(error), str(error)))
        except Exception as error:
            send(_ERROR, (FailedError.__name__, f"failed: {type(error).__name__}: {error}"))


def _call_limited(function: Callable[..., T], args: tuple[Any, ...], seconds: float) -> T:
    timed = seconds < float("inf") and hasattr(signal, "setitimer")
    if timed:
        # This signal ends code that does not check the limit, such as a C library.
        signal.setitimer(signal.ITIMER_VIRTUAL, 1.25 * seconds + _GRACE)
    try:
        with limited(seconds):
            return function(*args)
    finally:
        if timed:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)


def _hold_memory() -> None:
    """Refuse more memory than the machine has, instead of letting the system kill processes."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # not on every system

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (int(available_memory()), most))


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
