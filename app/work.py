"""Work that takes longer than a moment.

In a thread of its own, with progress, a way to cancel it, and a limit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, Generic, TypeVar

from app.limits import MOST_SECONDS
from dpsim.base.errors import DpsimError

T = TypeVar("T")
Report = Callable[[int, int], None]

_KEPT = 64


class CancelledError(Exception):
    """Nobody waits for it any more.

    Nothing went wrong, so that it is no DpsimError, which some work takes for an answer.
    """


class Task(Generic[T]):
    """``function(report)`` at work.

    It is told of a cancellation when it next calls ``report(done, total)``.
    """

    def __init__(self, function: Callable[[Report], T], seconds: float = MOST_SECONDS) -> None:
        self.done, self.total = 0, 0
        self._function, self._seconds, self._start = function, seconds, monotonic()
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._stop, self._ended = Event(), Event()
        self._waiting: set[str] = set()
        # A daemon: Ctrl-C ends the server, and does not wait for a simulation.
        Thread(target=self._run, daemon=True, name="dashboard work").start()

    @property
    def ended(self) -> bool:
        """Whether there is a value or an error."""
        return self._ended.is_set()

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled before it ended."""
        return isinstance(self._error, CancelledError) or (self._stop.is_set() and not self.ended)

    def cancel(self) -> None:
        """Stop it at its next report."""
        self._stop.set()

    def join(self, who: str) -> None:
        """``who`` waits for it."""
        self._waiting.add(who)

    def leave(self, who: str) -> None:
        """``who`` waits no more; it is stopped where nobody does."""
        self._waiting.discard(who)
        if not self._waiting and not self.ended:
            self.cancel()

    def wait(self, seconds: float) -> bool:
        """Whether it ends within ``seconds``."""
        return self._ended.wait(seconds)

    def value(self) -> T:
        """What it came to; raises what went wrong."""
        self._ended.wait()
        if self._error is not None:
            raise self._error
        return self._value[0]

    def report(self, done: int, total: int) -> None:
        """Note how far it is. Raises CancelledError, and DpsimError where it takes too long."""
        # A thread cannot be ended from outside: it ends where it says how far it is.
        self.done, self.total = done, total
        if self._stop.is_set():
            raise CancelledError("cancelled")
        if monotonic() - self._start > self._seconds and done < total:
            raise DpsimError(
                f"stopped after {self._seconds:.0f} s, {done:,} of {total:,} done: too long for a "
                "page; use the command"
            )

    def _run(self) -> None:
        try:
            self._value.append(self._function(self.report))
        except BaseException as error:  # shown where the value is asked for
            self._error = error
        finally:
            self._ended.set()


class Tasks:
    """Tasks by key, so that what was computed is there when it is asked for again.

    The last few are kept.
    """

    def __init__(self) -> None:
        self._tasks: OrderedDict[Hashable, Task[Any]] = OrderedDict()
        self._lock = Lock()

    def start(self, key: Hashable, function: Callable[[Report], T]) -> Task[T]:
        """The task of ``key``, begun if there is none, or if it was cancelled."""
        with self._lock:
            task = self._tasks.get(key)
            if task is None or task.cancelled:
                task = Task(function)
            self._tasks[key] = task
            self._tasks.move_to_end(key)
            while len(self._tasks) > _KEPT:
                self._tasks.popitem(last=False)[1].cancel()
            return task

    def known(self, key: Hashable) -> Task[Any] | None:
        """The task of ``key``, if there is one."""
        return self._tasks.get(key)
