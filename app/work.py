"""Background work of the pages.

A task runs in a separate process, with progress, cancellation and a limit, so that pages respond
meanwhile. A session runs two short tasks at a time, and all sessions together as many as there are
cores; the rest queue. A task that takes more than a second is restarted in the separate processes
for long work, one per session at a time, so that it delays no short one.
"""

from __future__ import annotations

import importlib
import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, wait
from threading import Event, Lock, Thread
from typing import Any, Generic, TypeVar

from dpsim.base.budget import TIME_LIMIT, OverTimeError, check, time_limit
from dpsim.base.child import Child

T = TypeVar("T")
Report = Callable[[int, int], None]

MOST_SECONDS = time_limit() if TIME_LIMIT in os.environ else 120.0
MOST_OF_A_SESSION = 2
MOST_AT_ONCE = max(2, os.cpu_count() or 1)
SHORT_S = 1.0  # of processor time
SERVER = "the server"  # owns tasks that no session has requested yet
_MOST_KEPT = 64


class CancelledError(Exception):
    """Cancelled, since no session waits for it.

    Not a DpsimError, which some work takes for an answer.
    """


class Task(Generic[T]):
    """A call of ``function(report)`` in a process of its own, from `begin` on.

    The function calls ``report(done, total)``. ``waiting``: the sessions that wait for it.
    """

    def __init__(self, function: Callable[[Report], T], seconds: float = MOST_SECONDS) -> None:
        self.done, self.total = 0, 0
        self.found: dict[str, Any] = {}
        self.begun = self.is_long = self.can_wait = False
        self.waiting: frozenset[str] = frozenset()
        self._child: Child | None = None
        self._function, self._seconds = function, seconds
        self._outcome: Future[T] = Future()
        self._stop, self._lock = Event(), Lock()

    def begin(self, child: Child, then: Callable[[], None] = lambda: None) -> Task[T]:
        """Start it in a process, unless it was cancelled before; call ``then`` when it has ended.

        A task that takes more than a second is long: it is stopped, has not ``begun`` when ``then``
        is called, and must be started again, with a higher limit.
        """
        with self._lock:
            if self.begun or self.ended:
                return self
            self.begun, self._child = True, child
        # A daemon: Ctrl-C ends the server without waiting for a simulation.
        Thread(target=self._run, args=(child, then), daemon=True, name="dashboard work").start()
        return self

    @property
    def ended(self) -> bool:
        """Whether it has a value or an error."""
        return self._outcome.done()

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled before it ended."""
        if not self.ended:
            return self._stop.is_set()
        return isinstance(self._outcome.exception(), CancelledError)

    def cancel(self) -> None:
        """Stop it: kill its process if it runs, otherwise end it at once."""
        # Before the lock: if it begins just now, it stops at its first report.
        self._stop.set()
        with self._lock:
            if self._child is not None:
                self._child.end()
            elif not self.ended:
                self._outcome.set_exception(CancelledError("cancelled"))

    def join(self, who: str) -> None:
        """Add ``who`` to the waiting sessions."""
        with self._lock:
            self.waiting |= {who}

    def leave(self, who: str) -> None:
        """Remove ``who`` from the waiting sessions; stop the task where none is left."""
        with self._lock:
            is_last = self.waiting == {who}
            self.waiting -= {who}
        if is_last and not self.ended:
            self.cancel()

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds``, and return whether it has ended."""
        return bool(wait([self._outcome], seconds).done)

    def value(self) -> T:
        """Wait for the result and return it; raise the error where it failed."""
        return self._outcome.result()

    def report(self, done: int, total: int, found: Mapping[str, Any] | None = None) -> None:
        """Record the progress, and the results ``found`` so far, by name.

        Raises CancelledError, and DpsimError if it takes too long.
        """
        self.done, self.total = done, total
        if found:
            self.found = {**self.found, **found}  # a new one, since pages read it meanwhile
        if self._stop.is_set():
            raise CancelledError("cancelled")
        check()

    def _run(self, child: Child, then: Callable[[], None]) -> None:
        limit = self._seconds if self.is_long else SHORT_S
        error: BaseException | None = None
        try:
            value = child.run(self._function, report=self.report, seconds=limit)
        except BaseException as raised:  # shown where the value is requested
            error = raised
        # Before ``then``, which counts running tasks.
        with self._lock:
            self._child = None
            if error is None:
                self._outcome.set_result(value)
            elif self._stop.is_set():
                self._outcome.set_exception(CancelledError("cancelled"))
            elif isinstance(error, OverTimeError) and not self.is_long:
                self.is_long, self.begun = True, False
            else:
                self._outcome.set_exception(error)
        if self.cancelled:
            child.start()  # a replacement for the next task
        then()


class Tasks:
    """Tasks by key, which cache their results.

    The last few are kept. Tasks that may not begin yet queue in order.
    """

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self._short = [Child(_prepare) for _ in range(most)]
        self._long = [Child(_prepare_for_long) for _ in range(max(1, most - 1))]
        self._tasks: OrderedDict[Hashable, Task[Any]] = OrderedDict()
        self._queue: list[Task[Any]] = []
        self._at_work: dict[Task[Any], Child] = {}
        self._lock = Lock()

    def warm(self) -> None:
        """Start the processes, one after the other, which takes seconds."""
        for child in (*self._short, *self._long):
            child.start()

    def start(
        self,
        key: Hashable,
        function: Callable[[Report], T],
        who: str = SERVER,
        *,
        can_wait: bool = False,
    ) -> Task[T]:
        """Return the task of ``key`` for ``who``, a new one if there is none.

        A cancelled task is replaced, but sessions that waited for it still see it as cancelled. A
        task that ``can_wait`` begins after those that cannot, and leaves them one process.
        """
        with self._lock:
            task = self._tasks.get(key)
            if task is None or (task.cancelled and who not in task.waiting):
                task = Task(function)
                task.can_wait = can_wait
                self._queue.append(task)
            task.join(who)
            self._tasks[key] = task
            self._tasks.move_to_end(key)
            # The least recently requested one. If it has not ended, its sessions see it as
            # cancelled.
            while len(self._tasks) > _MOST_KEPT:
                self._tasks.popitem(last=False)[1].cancel()
        self._begin_some()
        return task

    def leave(self, who: str) -> None:
        """Remove ``who`` from the waiting sessions of all tasks."""
        with self._lock:
            every = list(self._tasks.values())
        for task in every:
            task.leave(who)

    def _begin_some(self) -> None:
        """Begin tasks that have room, and remove ended ones."""
        # Called by sessions' threads, and by each task's thread as it ends.
        with self._lock:
            again = [task for task in self._at_work if not task.begun]
            self._queue = [task for task in (*self._queue, *again) if not task.ended]
            self._at_work = {
                task: child
                for task, child in self._at_work.items()
                if task.begun and not task.ended
            }
            busy = Counter((who, task.is_long) for task in self._at_work for who in task.waiting)
            for task in sorted(self._queue, key=lambda task: task.can_wait):
                of_its_kind = self._long if task.is_long else self._short[task.can_wait :]
                used = self._at_work.values()
                child = next((one for one in of_its_kind if one not in used), None)
                # A task of several sessions begins as soon as one of them has room for it.
                most = 1 if task.is_long else MOST_OF_A_SESSION
                has_room = any(busy[who, task.is_long] < most for who in task.waiting)
                if child is None or not has_room:
                    continue
                busy.update((who, task.is_long) for who in task.waiting)
                self._queue.remove(task)
                # It may have been cancelled since it joined the queue.
                if task.begin(child, self._begin_some).begun:
                    self._at_work[task] = child


def _prepare() -> None:
    """Import in advance the modules that pages need."""
    importlib.import_module("app.uploads")
    importlib.import_module("app.lessons")


def _prepare_for_long() -> None:
    _prepare()
    if hasattr(os, "nice"):
        os.nice(5)  # short work has priority
