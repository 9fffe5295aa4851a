"""Work that takes longer than a moment.

In a thread of its own, with progress, a way to cancel it, and a limit; a session has two at a time,
all together as many as there are cores, and the others queue. A server carries it out in processes
apart, so that pages answer meanwhile: what is not done in a second goes on in those for long work,
one of a session at a time, and holds up none that is short.
"""

from __future__ import annotations

import importlib
import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, Generic, TypeVar

from app.limits import MOST_SECONDS
from dpsim.base.budget import OverTimeError
from dpsim.base.child import Child
from dpsim.base.errors import DpsimError

T = TypeVar("T")
Report = Callable[[int, int], None]

MOST_OF_A_SESSION = 2
MOST_AT_ONCE = max(2, os.cpu_count() or 1)
SHORT_S = 1.0  # of the processor
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
        self.is_long = self.can_wait = False
        self._child: Child | None = None
        self._function, self._seconds, self._start = function, seconds, 0.0
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._stop, self._ended = Event(), Event()
        self._lock = Lock()
        self._waiting: set[str] = set()

    def begin(self, then: Callable[[], None] = lambda: None, child: Child | None = None) -> Task[T]:
        """Start it, unless it was cancelled before; ``then`` is called when it has ended.

        With ``child`` it is carried out there. What is not done there in a second is long: it is
        not begun any more when ``then`` is called, and is to begin again.
        """
        with self._lock:
            if self.begun or self.ended:
                return self
            self.begun, self._child = True, child
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
            elif self._child is not None:
                self._child.end()

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
        # What is done already is kept, however late. A process counts its own seconds.
        if self._child is None and monotonic() - self._start > self._seconds and done < total:
            raise DpsimError(
                f"stopped after {self._seconds:.0f} s, {done:,} of {total:,} done: too long for a "
                "page; use the command"
            )

    def _run(self, then: Callable[[], None]) -> None:
        try:
            if self._child is None:
                self._value.append(self._function(self.report))
            else:
                self._value.append(self._apart(self._child))
        except OverTimeError:
            self.is_long = True
        except BaseException as error:  # shown where the value is asked for
            self._error = CancelledError("cancelled") if self._stop.is_set() else error
        finally:
            with self._lock:
                child, self._child = self._child, None
                if self._error is None and not self._value:
                    self.begun = False
                    if self._stop.is_set():
                        self._error = CancelledError("cancelled")
            if self.begun or self._error is not None:
                # Before ``then``, which counts what is still at work.
                self._ended.set()
            if child is not None and self.cancelled:
                child.start()  # another, for whoever comes next
            then()

    def _apart(self, child: Child) -> T:
        limit = self._seconds if self.is_long else SHORT_S
        try:
            return child.run(self._function, report=self.report, seconds=limit)
        except OverTimeError:
            if self.is_long:
                raise DpsimError(
                    f"takes more than {limit:.0f} s of the processor, {self.done:,} of "
                    f"{self.total:,} done: too long for a page; use the command"
                ) from None
            raise


class Tasks:
    """Tasks by key, so that what was computed is there when it is asked for again.

    The last few are kept. Those that may not begin yet queue, the first first.
    """

    def __init__(self, most: int = MOST_AT_ONCE, apart: bool = False) -> None:
        self._most = most
        self._short = [Child(_prepare) for _ in range(most)] if apart else []
        self._long = [Child(_prepare_for_long) for _ in range(max(1, most - 1))] if apart else []
        self._used: dict[Task[Any], Child] = {}
        self._tasks: OrderedDict[Hashable, Task[Any]] = OrderedDict()
        self._queue: list[Task[Any]] = []
        self._at_work: list[Task[Any]] = []
        self._lock = Lock()

    def warm(self) -> None:
        """Start the processes, one after the other, which takes seconds."""
        for child in (*self._short, *self._long):
            child.start()

    def end(self) -> None:
        """Cancel all, and end the processes."""
        for task in (*self._queue, *self._at_work):
            task.cancel()
        for child in (*self._short, *self._long):
            child.end()

    def start(
        self,
        key: Hashable,
        function: Callable[[Report], T],
        who: str = NOBODY,
        *,
        can_wait: bool = False,
    ) -> Task[T]:
        """The task of ``key`` for ``who``, new if there is none, or if it was cancelled.

        One that ``can_wait`` is begun after those that cannot, and leaves them one process.
        """
        with self._lock:
            task = self._tasks.get(key)
            if task is None or task.cancelled:
                task = Task(function)
                task.can_wait = can_wait
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
            again = [task for task in self._at_work if not task.begun and not task.ended]
            self._at_work = [task for task in self._at_work if task.begun and not task.ended]
            self._queue = [task for task in (*self._queue, *again) if not task.ended]
            self._used = {
                task: child for task, child in self._used.items() if task in self._at_work
            }
            busy = Counter((who, task.is_long) for task in self._at_work for who in task.waiting)
            for task in sorted(self._queue, key=lambda task: task.can_wait):
                child = self._free(task)
                if child is None and (self._short or len(self._at_work) >= self._most):
                    continue
                # What several wait for begins as soon as one of them has room for it.
                most = 1 if task.is_long else MOST_OF_A_SESSION
                if not any(busy[who, task.is_long] < most for who in task.waiting):
                    continue
                busy.update((who, task.is_long) for who in task.waiting)
                self._queue.remove(task)
                # It may have been cancelled since it joined the queue.
                if task.begin(self._begin_some, child).begun:
                    self._at_work.append(task)
                    if child is not None:
                        self._used[task] = child

    def _free(self, task: Task[Any]) -> Child | None:
        """A process of those for the task that has nothing to do."""
        used = self._used.values()
        of_its_kind = self._long if task.is_long else self._short[task.can_wait :]
        return next((one for one in of_its_kind if one not in used), None)


def _prepare() -> None:
    """Load in advance what pages ask for."""
    importlib.import_module("app.own_files")
    importlib.import_module("app.lessons")


def _prepare_for_long() -> None:
    _prepare()
    if hasattr(os, "nice"):
        os.nice(5)  # what is short comes first
