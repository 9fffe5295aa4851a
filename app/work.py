"""Work that takes longer than a moment.

In a thread of its own, with progress, a way to cancel it, and a limit; a session has two at a time,
all together as many as there are cores, and the others queue.
"""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, Generic, TypeVar

from app.limits import MOST_SECONDS
from dpsim.base.errors import DpsimError

T = TypeVar("T")
Report = Callable[[int, int], None]

MOST_OF_A_SESSION = 2
MOST_AT_ONCE = max(2, os.cpu_count() or 1)
NOBODY = "the server itself"  # who asks for what no session has asked for yet
_KEPT = 64


class CancelledError(Exception):
    """Nobody waits for it any more.

    Nothing went wrong, so that it is no DpsimError, which some work takes for an answer.
    """


class Task(Generic[T]):
    """``function(report)``, at work once it has begun.

    It is told of a cancellation when it next calls ``report(done, total)``.
    """

    def __init__(self, function: Callable[[Report], T], seconds: float = MOST_SECONDS) -> None:
        self.done, self.total = 0, 0
        self.begun = False
        self._function, self._seconds, self._start = function, seconds, 0.0
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._stop, self._ended = Event(), Event()
        self._lock = Lock()
        self._waiting: set[str] = set()

    def begin(self, then: Callable[[], None] = lambda: None) -> Task[T]:
        """Start it, unless it was cancelled before; ``then`` is called when it has ended."""
        with self._lock:
            if self.begun or self.ended:
                return self
            self.begun = True
        self._start = monotonic()
        # A daemon: Ctrl-C ends the server, and does not wait for a simulation.
        Thread(target=self._run, args=(then,), daemon=True, name="dashboard work").start()
        return self

    @property
    def ended(self) -> bool:
        """Whether there is a value or an error."""
        return self._ended.is_set()

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled before it ended."""
        return isinstance(self._error, CancelledError) or (self._stop.is_set() and not self.ended)

    @property
    def waiting(self) -> frozenset[str]:
        """Who waits for it."""
        return frozenset(self._waiting)

    def cancel(self) -> None:
        """Stop it at its next report, or at once where it has not begun."""
        # Before the lock: should it begin just now, it stops at its first report.
        self._stop.set()
        with self._lock:
            if not self.begun:
                self._error = CancelledError("cancelled")
                self._ended.set()

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
        # What is done already is kept, however late.
        if monotonic() - self._start > self._seconds and done < total:
            raise DpsimError(
                f"stopped after {self._seconds:.0f} s, {done:,} of {total:,} done: too long for a "
                "page; use the command"
            )

    def _run(self, then: Callable[[], None]) -> None:
        try:
            self._value.append(self._function(self.report))
        except BaseException as error:  # shown where the value is asked for
            self._error = error
        finally:
            # Before ``then``, which counts what is still at work.
            self._ended.set()
            then()


class Tasks:
    """Tasks by key, so that what was computed is there when it is asked for again.

    The last few are kept. Those that may not begin yet queue, the first first.
    """

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self._most = most
        self._tasks: OrderedDict[Hashable, Task[Any]] = OrderedDict()
        self._queue: list[Task[Any]] = []
        self._at_work: list[Task[Any]] = []
        self._lock = Lock()

    def start(self, key: Hashable, function: Callable[[Report], T], who: str = NOBODY) -> Task[T]:
        """The task of ``key`` for ``who``, new if there is none, or if it was cancelled."""
        with self._lock:
            task = self._tasks.get(key)
            if task is None or task.cancelled:
                task = Task(function)
                self._queue.append(task)
            task.join(who)
            self._tasks[key] = task
            self._tasks.move_to_end(key)
            # The one that was asked for longest ago. Where it has not ended, whoever waits for it
            # sees it cancelled.
            while len(self._tasks) > _KEPT:
                self._tasks.popitem(last=False)[1].cancel()
        self._begin_some()
        return task

    def known(self, key: Hashable) -> Task[Any] | None:
        """The task of ``key``, if there is one."""
        return self._tasks.get(key)

    def waiting(self) -> set[str]:
        """Who waits for a task that has not ended."""
        with self._lock:
            open_tasks = [*self._queue, *self._at_work]
        return {who for task in open_tasks for who in task.waiting}

    def leave(self, who: str) -> None:
        """``who`` waits for none of them any more."""
        with self._lock:
            open_tasks = [*self._queue, *self._at_work]
        for task in open_tasks:
            if who in task.waiting:
                task.leave(who)

    def _begin_some(self) -> None:
        """Begin what has room, and forget what has ended."""
        # A session's thread comes here, and that of each task as it ends.
        with self._lock:
            self._at_work = [task for task in self._at_work if not task.ended]
            self._queue = [task for task in self._queue if not task.ended]
            busy = Counter(who for task in self._at_work for who in task.waiting)
            for task in list(self._queue):
                if len(self._at_work) >= self._most:
                    return
                # What several wait for begins as soon as one of them has room for it.
                if not any(busy[who] < MOST_OF_A_SESSION for who in task.waiting):
                    continue
                busy.update(task.waiting)
                self._queue.remove(task)
                # It may have been cancelled since it joined the queue.
                if task.begin(self._begin_some).begun:
                    self._at_work.append(task)
