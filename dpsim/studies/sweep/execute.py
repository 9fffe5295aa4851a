"""Many scenarios on many processes: of this machine (loky), or of a Dask cluster.

Both are executors as `concurrent.futures` describes them.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import time
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import cache
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from dpsim.base.child import end_with
from dpsim.base.errors import DpsimError, FailedError, how_to_install
from dpsim.engine import KeptJobs, prepared_by, simulate
from dpsim.studies.sweep.columns import row
from dpsim.studies.sweep.store import Row, Store

if TYPE_CHECKING:
    from distributed import Client

_CONNECT_WITHIN = 10  # seconds
_LOOKS_EVERY = 1.0  # s between two looks whether a cluster has workers
_BACK_WITHIN = 60.0  # s in which workers that have gone may be started anew
_STARTS = 3  # of a pool whose workers die before they have begun anything
_AT_ONCE_BY_DASK = 1_000  # scenarios that the scheduler holds
_KILLER = "failed: its worker process was killed while it was alone with it, as for want of memory"


def execute(
    contents: Mapping[str, bytes], store: Store, workers: int, dask: str | None
) -> Iterator[Row]:
    """Yield the rows of pickled scenarios by key as they are done; each stands in ``store`` before.

    One worker is this very process. Where a worker dies, what was in flight is computed one by one,
    and a scenario that kills its worker again is a row with an error. Raises FailedError where
    workers die before they have begun anything, or the cluster cannot be reached or is lost.
    """
    if workers == 1 and dask is None:
        for key, content in contents.items():
            yield store.add(compute(key, content))
        return
    waiting = dict(contents)
    with _client(dask) as client:
        while waiting:
            at_once = _AT_ONCE_BY_DASK if client else 2 * workers
            lost = yield from _until_death(list(waiting), waiting, store, workers, at_once, client)
            while lost:
                for key in (yield from _until_death(lost, waiting, store, 1, 1, client)):
                    yield store.add({"key": key, "error": _KILLER, "retry": True})
                    del waiting[key]
                lost = [key for key in lost if key in waiting]


def compute(key: str, content: bytes) -> Row:
    """Return the row of one pickled scenario.

    An error that the scenario itself raises is final. Any other, such as too little memory, may
    pass: ``retry`` says so.
    """
    answer: Row = {"key": key, "error": None, "retry": False}
    try:
        with prepared_by(_jobs().prepare):
            answer |= row(simulate(pickle.loads(content)))  # nosec B301 - this sweep's own
    except DpsimError as error:
        answer["error"] = "; ".join(str(error).splitlines())
    except Exception as error:  # a row for each point, whatever happens to it
        answer |= {"error": f"failed: {type(error).__name__}: {error}", "retry": True}
    return answer


@cache
def _jobs() -> KeptJobs:
    """The jobs of this process: neighbouring points often differ in their seeds alone."""
    return KeptJobs()


def _until_death(
    keys: list[str],
    waiting: dict[str, bytes],
    store: Store,
    workers: int,
    at_once: int,
    client: Client | None,
) -> Generator[Row, None, list[str]]:
    """Compute ``keys``, at most ``at_once`` in flight, until all are done or a worker dies.

    Rows leave ``waiting``. Returns the keys that were in flight when a worker died: the pool says
    that one did, not at what.
    """
    todo, lost = iter(keys), list[str]()
    running: dict[Future[Row], str] = {}
    done: SimpleQueue[Future[Row]] = SimpleQueue()
    with _pool(workers, client) as pool:
        while True:
            while not lost and len(running) < at_once and (key := next(todo, None)) is not None:
                try:
                    future = pool.submit(compute, key, waiting[key])
                except BrokenProcessPool:
                    lost.append(key)
                else:
                    running[future] = key
                    future.add_done_callback(done.put)
            if not running:
                return lost
            future = _next(done, client)
            key = running.pop(future)
            try:
                answer = future.result()
            except Exception as error:
                if not _is_death(error):
                    raise
                lost.append(key)
            else:
                del waiting[key]
                yield store.add(answer)


def _next(done: SimpleQueue[Future[Row]], client: Client | None) -> Future[Row]:
    """Wait for what is done next.

    Raises FailedError where a cluster has had no workers for long: one that hangs is none once its
    scheduler has not heard of it for ``distributed.scheduler.worker-ttl``.
    """
    heard = time.monotonic()
    while client is not None:
        with suppress(Empty):
            return done.get(timeout=_LOOKS_EVERY)
        if _has_workers(client):
            heard = time.monotonic()
        elif time.monotonic() - heard > _BACK_WITHIN:
            raise FailedError(
                f"--dask: the scheduler has had no workers for {_BACK_WITHIN:g} s (--resume goes "
                "on)"
            )
    return done.get()


def _has_workers(client: Client) -> bool:
    try:
        return bool(client.sync(client.scheduler.ncores, callback_timeout=_CONNECT_WITHIN))
    except (OSError, TimeoutError):  # it hangs, or has gone, of which its futures will hear
        return False


def _is_death(error: Exception) -> bool:
    """Whether a worker was lost, and not a row refused."""
    # Dask's by its name, as it may not be installed.
    return isinstance(error, BrokenProcessPool) or type(error).__name__ == "KilledWorker"


@contextmanager
def _pool(workers: int, client: Client | None) -> Iterator[Executor]:
    """Yield processes of this machine, or a cluster's workers, of which one has answered.

    What dies from then on dies of its work.
    """
    if client is not None:
        yield client.get_executor(pure=False)
        return
    # The processes of loky do not run the caller's script anew, as those of the standard library
    # do: a script needs no `if __name__ == "__main__"`.
    from loky import ProcessPoolExecutor

    for _ in range(_STARTS):
        pool = ProcessPoolExecutor(workers, initializer=end_with, initargs=(os.getpid(),))
        try:
            pool.submit(os.getpid).result()
        except BrokenProcessPool:
            continue
        try:
            yield pool
        finally:
            pool.shutdown(kill_workers=True)
        return
    raise FailedError("workers die before they begin (--resume goes on)")


def check_address(dask: str | None) -> None:
    """Raises DpsimError for what is no address of a Dask scheduler."""
    # A client of such an address prints an error of its own when it is dropped.
    if dask is not None and not re.search(r":\d+$|^inproc://", dask):
        raise DpsimError(
            f"--dask: must be a scheduler's address, such as tcp://host:8786, but got {dask!r}"
        )


@contextmanager
def _client(address: str | None) -> Iterator[Client | None]:
    """Yield a connection to the scheduler at ``address``; None for workers of this machine."""
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise DpsimError(f"--dask needs Dask; {how_to_install('cluster')}") from None
    # What goes wrong is said here in a line, which they would log as tracebacks.
    for logs in ("distributed.client", "tornado.application"):
        logging.getLogger(logs).setLevel(logging.CRITICAL)
    try:
        client: Any = Client(address, timeout=_CONNECT_WITHIN, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise FailedError(
            f"--dask: no scheduler answers at {address!r}: {str(error).splitlines()[0]}"
        ) from None
    with client:
        try:
            # Those that have just died may be on their way back.
            client.wait_for_workers(1, timeout=_CONNECT_WITHIN)
        except TimeoutError:
            raise FailedError(f"--dask: the scheduler at {address} has no workers") from None
        try:
            yield client
        except CancelledError:
            raise FailedError(
                f"--dask: the scheduler at {address} has gone (--resume goes on)"
            ) from None
