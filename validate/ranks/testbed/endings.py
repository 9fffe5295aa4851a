"""Signals that end a program: raised as exceptions, or deferred for a while.

As exceptions they leave ``with`` blocks in order.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# After a signal: people press Ctrl-C twice, and the second must not interrupt the clean-up.
_DEAF_S = 5.0


@contextmanager
def ends_in_order() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt; SIGTERM and SIGHUP SystemExit with the shell's code.

    For 5 s after that none raises again. Signals that the program handles or ignores by its own
    choice are left alone. In threads other than the main one, which cannot set handlers, nothing
    changes.
    """
    usual = (signal.SIG_DFL, signal.default_int_handler)
    taken = {
        number: handler
        for number in _ENDINGS
        if _main() and (handler := signal.getsignal(number)) in usual
    }
    ending = _Ending()
    for number in taken:
        signal.signal(number, ending)
    try:
        yield
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)


@contextmanager
def held_back() -> Iterator[None]:
    """Defer SIGINT, SIGTERM and SIGHUP to the end of the block.

    In threads other than the main one nothing changes.
    """
    came: list[int] = []
    numbers = _ENDINGS if _main() else ()
    handlers = {
        number: handler
        for number in numbers
        if (handler := signal.getsignal(number)) not in (None, signal.SIG_IGN)
    }
    for number in handlers:
        signal.signal(number, lambda late, frame: came.append(late))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)


class _Ending:
    """A handler that raises, and then ignores signals for a while."""

    def __init__(self) -> None:
        self._raised = -math.inf

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if time.monotonic() - self._raised < _DEAF_S:
            return
        self._raised = time.monotonic()
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


def _main() -> bool:
    return threading.current_thread() is threading.main_thread()
