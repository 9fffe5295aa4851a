"""An asynchronous worker at parameter servers.

A thread sends pushes one after another; a pull ends the iteration.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from dpsim.engine import Job, StagedCall
from dpsim.strategy.sync import DROPPED
from validate.emulate.alone import MeetingPoint
from validate.emulate.clock import now
from validate.emulate.push_pull import LEAVE, Client
from validate.emulate.row import Row
from validate.emulate.servers import OWN_NUMBERS


class AtServers(MeetingPoint):
    """A worker under SSP or ASP, or one of backup workers.

    Of several servers, the one with the longest wait determines the noted wait. Versions are those
    of the first server; a gradient is handed over when the last server has it.
    """

    def __init__(self, job: Job, client: Client) -> None:
        self._client = client
        self._calls = len(job.calls(0))
        self._pull = sum(
            nbytes for call in job.calls(0) for name, nbytes in call.stages if name == "pull"
        )
        self._pushed: list[float] = []
        self._replies: Callable[[], Any] = lambda: None
        # A thread sends, since a push returns only when the kernel has taken it, and the worker
        # computes meanwhile. One thread, so that pushes keep their order.
        self._jobs: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._push, daemon=True)
        self._thread.start()

    def begin(self, row: Row) -> None:
        """Tell the servers, and post receives for their answers."""
        # Receives are posted before anything is sent: gloo's bytes start when the receive for them
        # is announced, so that a late one costs a round trip, which would be measured.
        self._pushed.clear()
        self._replies = self._client.expect_reply(OWN_NUMBERS + self._calls)
        self._client.expect(self._pull)
        self._client.go(row.step)

    def ready(self, call: StagedCall) -> None:
        """Push the call, after earlier pushes."""
        self._jobs.put(sum(nbytes for name, nbytes in call.stages if name == "push"))

    def end(self, row: Row) -> None:
        """Wait until the gradient is applied, the worker may continue, and it has pulled."""
        replies = self._replies()
        self._client.pull()
        ended = now()
        if self._failed is not None:
            raise self._failed
        stale, _, taken, released, waited = replies[:, :OWN_NUMBERS].T
        # Each server decides by what it has seen: a gradient dropped by one counts as dropped.
        row.versions = int(stale[0]) if (stale != DROPPED).all() else DROPPED
        row.passed = float(taken.max())
        row.straggler_wait = float(waited.max())
        row.exposed_comm = max(ended - row.done - row.straggler_wait, 0.0)
        # A push keeps the network busy until the last server has it, a pull from the last server's
        # release on. Processes of one machine share the clock of both times.
        arrived = replies[:, OWN_NUMBERS:].max(axis=0)
        pushes = [max(end - begin, 0.0) for begin, end in zip(self._pushed, arrived, strict=True)]
        row.busy = float(sum(pushes))
        row.busy += ended - float(released.max())

    def after(self, row: Row) -> None:
        """Do nothing: the servers have taken the optimiser's step."""

    def leave(self) -> None:
        """End the thread, and tell the servers."""
        self._jobs.put(None)
        self._thread.join()
        self._client.go(LEAVE)

    def _push(self) -> None:
        try:
            while (nbytes := self._jobs.get()) is not None:
                self._pushed.append(now())
                self._client.push(nbytes)
        except BaseException as error:  # raised by `end`, on the worker's own thread
            self._failed = error
