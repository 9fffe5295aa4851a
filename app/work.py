"""Background work of the pages.

Tasks have progress, cancellation and a limit. A few run at once, one more than there are cores, and
others queue. A server runs them in separate processes, so that pages respond meanwhile.
"""

from __future__ import annotations

import importlib
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import CancelledError, Future, wait
from threading import Condition, Event, Lock, Thread
from typing import Any, TypeVar

from dpsim.base.budget import TIME_LIMIT, check, limited, time_limit
from dpsim.base.child import Child

T = TypeVar("T")
Report = Callable[[int, int], None]

MOST_SECONDS = time_limit() if TIME_LIMIT in os.environ else 120.0
MOST_AT_ONCE = max(2, os.cpu_count() or 1) + 1
NOBODY = "the server itself"  # the owner of tasks that no session has requested yet
_KEPT = 64


class Task(Future[T]):
    """The result of ``function(report)``, with its progress and the sessions that wait for it.

    A cancellation takes effect at the next call of ``report(done, total)``, and at once in the
    queue or in another process. A task that ``can_wait`` begins after those that cannot.
    """

    def __init__(
        self,
        function: Callable[[Report], T],
        seconds: float = MOST_SECONDS,
        *,
        can_wait: bool = False,
    ) -> None:
        super().__init__()
        self.progress = (0, 0)
        self.found: dict[str, Any] = {}
        self.waiting: set[str] = set()
        self.can_wait = can_wait
        self._function, self._seconds = function, seconds
        self._child: Child | None = None
        self._stop, self._lock = Event(), Lock()

    def run(self, child: Child | None = None) -> None:
        """Run it, in the process ``child`` if given; not if it was cancelled before."""
        if not self.set_running_or_notify_cancel():
            return
        self._child = child
        try:
            if child is None:
                with limited(self._seconds):
                    value = self._function(self.report)
            else:
                value = child.run(self._function, report=self.report, seconds=self._seconds)
            self._ended(lambda: self.set_result(value))
        except BaseException as error:  # raised where the result is requested
            if isinstance(error, CancelledError):
                self._stop.set()
            failed = CancelledError() if self._stop.is_set() else error
            self._ended(lambda: self.set_exception(failed))
        if child is not None and self._stop.is_set():
            child.start()  # a replacement for the next task

    def _ended(self, record: Callable[[], None]) -> None:
        # From now on a cancellation must not end the process, which has the next task.
        with self._lock:
            self._child = None
        record()

    def cancel(self) -> bool:
        """Stop it at its next report, or at once in another process or in the queue."""
        if not super().cancel() and not self.done():
            self._stop.set()
            with self._lock:
                if self._child is not None:
                    self._child.end()
        return self.cancelled()

    def cancelled(self) -> bool:
        """Return whether it was cancelled before it ended."""
        return super().cancelled() or self._stop.is_set()

    def leave(self, who: str) -> None:
        """Remove ``who`` from the waiting sessions; stop the task where none is left."""
        self.waiting.discard(who)
        if not self.waiting and not self.done():
            self.cancel()

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds``, and return whether it has ended."""
        return bool(wait([self], seconds).done)

    def report(self, done: int, total: int, found: Mapping[str, Any] | None = None) -> None:
        """Record the progress, and what is ``found`` so far, by name.

        Raises CancelledError, and FailedError where it takes too long.
        """
        # A thread cannot be ended from outside: it ends at its next report.
        self.progress = (done, total)
        if found:
            self.found = {**self.found, **found}  # a new one, since pages read it meanwhile
        if self._stop.is_set():
            raise CancelledError
        check()


class Tasks:
    """Tasks by key, which cache their results.

    The last few are kept. One of the workers takes no task that can wait.
    """

    def __init__(self, most: int = MOST_AT_ONCE, apart: bool = False) -> None:
        self._children = [Child(_prepare) if apart else None for _ in range(most)]
        self._tasks: OrderedDict[Hashable, Task[Any]] = OrderedDict()
        self._queue: list[Task[Any]] = []
        self._changed = Condition()
        for number, child in enumerate(self._children):
            # Daemons: Ctrl-C ends the server without waiting for a simulation.
            Thread(target=self._work, args=(child, number > 0 or most == 1), daemon=True).start()

    def warm(self) -> None:
        """Start the processes, one after the other, which takes seconds."""
        for child in filter(None, self._children):
            child.start()

    def end(self) -> None:
        """Cancel all tasks, and end the processes."""
        for task in self._tasks.values():
            task.cancel()
        for child in filter(None, self._children):
            child.end()

    def start(
        self,
        key: Hashable,
        function: Callable[[Report], T],
        who: str = NOBODY,
        *,
        can_wait: bool = False,
    ) -> Task[T]:
        """Return the task of ``key`` for ``who``, a new one if there is none or it was cancelled.

        A task that ``can_wait`` leaves one process to those that cannot.
        """
        with self._changed:
            task = self._tasks.get(key)
            if task is None or task.cancelled():
                task = Task(function, can_wait=can_wait)
                self._queue.append(task)
                self._changed.notify_all()
            task.waiting.add(who)
            self._tasks[key] = task
            self._tasks.move_to_end(key)
            # The least recently requested one. If it has not ended, its sessions see it as
            # cancelled.
            while len(self._tasks) > _KEPT:
                self._tasks.popitem(last=False)[1].cancel()
        return task

    def known(self, key: Hashable) -> Task[Any] | None:
        """Return the task of ``key``, if there is one."""
        return self._tasks.get(key)

    def leave(self, who: str) -> None:
        """Remove ``who`` from the waiting sessions of all tasks."""
        with self._changed:
            tasks = list(self._tasks.values())
        for task in tasks:
            if who in task.waiting:
                task.leave(who)

    def _work(self, child: Child | None, takes_all: bool) -> None:
        while True:
            with self._changed:
                while (task := self._next(takes_all)) is None:
                    self._changed.wait()
                self._queue.remove(task)
            task.run(child)

    def _next(self, takes_all: bool) -> Task[Any] | None:
        """Return the first task in the queue; one that can wait only if there is no other."""
        ordered = sorted(self._queue, key=lambda task: task.can_wait)
        return next((task for task in ordered if takes_all or not task.can_wait), None)


def _prepare() -> None:
    """Import in advance the modules that pages need."""
    importlib.import_module("app.own_files")
    importlib.import_module("app.lessons")
