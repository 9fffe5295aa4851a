"""Compute many scenarios in parallel, by processes of this machine (loky) or on a Dask cluster.

Both are executors as in `concurrent.futures`.
"""

from __future__ import annotations

import logging
import os
import re
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import cache
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from dpsim.base.child import end_with
from dpsim.base.errors import DpsimError, FailedError, how_to_install
from dpsim.engine import KeptJobs, prepared_by, simulate
from dpsim.studies.sweep.axis import Values
from dpsim.studies.sweep.columns import row
from dpsim.studies.sweep.point import (
    Content,
    Made,
    Point,
    make_elsewhere,
    pack,
    receive_point,
    scenario_of,
    surroundings,
    unpack,
)
from dpsim.studies.sweep.store import Row, Store, in_log

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")
Computed: TypeAlias = Future[tuple[bytes, int, float]]

_CONNECT_WITHIN = 10  # seconds
_LOOKS_EVERY = 1.0  # s between two checks whether a cluster has workers
_BACK_WITHIN = 60.0  # s in which lost workers may be restarted
_STARTS = 3  # of a pool whose workers die before they compute anything
_AT_ONCE_BY_DASK = 1_000  # minimum of chunks submitted to the scheduler; more for more workers
_CHUNK = 1.0  # s of wall-clock time that a chunk should take
_MOST_IN_A_CHUNK = 1_000
_MADE_AT_ONCE = 1_000  # points that a worker makes, half a millisecond each
_KILLER = "failed: its worker process was killed while it was alone with it, as for want of memory"


def execute(
    contents: Mapping[str, Content], store: Store, workers: int, client: Client | None
) -> Iterator[str]:
    """Compute scenarios, and yield each key after its row is stored in ``store``.

    One worker is this process; several get chunks of about a second. If a worker dies, the
    scenarios in flight are computed one by one, and a scenario that kills its worker again becomes
    a row with an error. Raises FailedError if workers die before they begin, or the cluster is
    lost.
    """
    if workers == 1 and client is None:
        for key, content in contents.items():
            store.add(compute(key, content))
            yield key
        return
    waiting = dict(contents)
    if client:
        workers = _threads(client)
    at_once = max(2 * workers, _AT_ONCE_BY_DASK if client else 0)
    while waiting:
        chunks = _Chunks(waiting, workers, at_once)
        lost = yield from _until_death(chunks, waiting, store, workers, client)
        while lost:
            one_by_one = _Chunks(lost, 1, 1, most=1)
            for key in (yield from _until_death(one_by_one, waiting, store, 1, client)):
                store.add(in_log({"key": key, "error": _KILLER, "retry": True}))
                del waiting[key]
                yield key
            lost = [key for key in lost if key in waiting]


class _Chunks:
    """The keys to compute, in chunks of about a second for a worker.

    At most ``at_once`` chunks of at most ``most`` keys are in flight. The last chunks are small, so
    that all ``workers`` end at about the same time.
    """

    def __init__(
        self, keys: Iterable[str], workers: int, at_once: int, most: int = _MOST_IN_A_CHUNK
    ) -> None:
        self._todo = deque(keys)
        self._workers = workers
        self._at_once = at_once
        self._most = most
        self._number = 1.0
        self._reports = 0
        self._grows = True

    def next(self, in_flight: int) -> list[str]:
        """Return the keys of the next chunk; none if all are submitted, or enough are in flight."""
        # Submit few chunks until it is known how many points take a second.
        few = min(2 * self._workers, self._at_once)
        if in_flight >= (few if self._grows else self._at_once):
            return []
        share = -(-len(self._todo) // (2 * self._workers))
        most = min(int(self._number), self._most)
        # Take at least an eighth of the most, because each chunk costs the client a millisecond.
        number = min(max(share, most // 8), most, len(self._todo))
        return [self._todo.popleft() for _ in range(number)]

    def took(self, keys: list[str], done: int, seconds: float) -> None:
        """Record that the first ``done`` of ``keys`` took ``seconds``, and requeue the others."""
        self._todo.extendleft(reversed(keys[done:]))
        # Later points may take longer, so chunks grow gradually.
        wanted = done * _CHUNK / max(seconds, 1e-6)
        self._reports += 1
        # A worker's first chunk takes longer, because it loads modules.
        self._grows = self._reports <= self._workers or wanted > 2 * self._number
        self._number = max(1.0, min(2 * self._number, wanted))


def compute_chunk(packed: bytes) -> tuple[bytes, int, float]:
    """Return the compressed rows of a packed chunk, their number, and their seconds.

    If the chunk takes too long, only its first rows are returned.
    """
    begun = monotonic()
    rows: list[bytes] = []
    for key, content in unpack(packed):
        rows.append(compute(key, content))
        if monotonic() - begun > 2 * _CHUNK:
            break
    return zlib.compress(b"".join(rows)), len(rows), monotonic() - begun


# Jobs are kept per process, because neighbouring points often differ only in their seeds.
_jobs = cache(KeptJobs)


def compute(key: str, content: Content) -> bytes:
    """Return the row of one scenario `in_log`.

    The scenario's own errors are final. Others, such as too little memory, set ``retry``.
    """
    answer: Row = {"key": key, "error": None, "retry": False}
    try:
        with prepared_by(_jobs().prepare):
            answer |= row(simulate(scenario_of(content)))
    except DpsimError as error:
        answer["error"] = "; ".join(str(error).splitlines())
    except Exception as error:  # every point gets a row, whatever happens
        answer |= {"error": f"failed: {type(error).__name__}: {error}", "retry": True}
    return in_log(answer)


def _until_death(
    chunks: _Chunks,
    waiting: dict[str, Content],
    store: Store,
    workers: int,
    client: Client | None,
) -> Generator[str, None, list[str]]:
    """Compute ``chunks`` until all are done or a worker dies.

    Finished rows are removed from ``waiting``. Return the keys that were in flight when a worker
    died: the pool does not tell which of them it was computing.
    """
    lost = list[str]()
    running: dict[Computed, list[str]] = {}
    done: SimpleQueue[Computed] = SimpleQueue()
    with _pool(workers, client) as pool:
        while True:
            while not lost and (keys := chunks.next(len(running))):
                try:
                    future = pool.submit(compute_chunk, pack([(key, waiting[key]) for key in keys]))
                except BrokenProcessPool:
                    lost += keys
                else:
                    running[future] = keys
                    future.add_done_callback(done.put)
            if not running:
                return lost
            future = _next(done, client)
            keys = running.pop(future)
            try:
                rows, number, seconds = future.result()
            except Exception as error:
                if not _is_death(error):
                    raise
                lost += keys
            else:
                chunks.took(keys, number, seconds)
                store.add(zlib.decompress(rows))
                for key in keys[:number]:
                    del waiting[key]
                    yield key


def points_by(
    connect: Callable[[], Client | None], base: bytes, values: Sequence[Values]
) -> list[Point]:
    """Return the points of a base with values, made by a cluster's workers if possible."""
    client = connect()
    assert client is not None
    number = max(1, min(_MADE_AT_ONCE, len(values) // (2 * _threads(client))))
    here, running = surroundings(), dict[Future[list[Made]], slice]()
    done: SimpleQueue[Future[list[Made]]] = SimpleQueue()
    made: list[Made] = [None] * len(values)
    with _pool(0, client) as pool:
        for start in range(0, len(values), number):
            part = slice(start, start + number)
            future = pool.submit(make_elsewhere, pack((here, base, values[part])))
            running[future] = part
            future.add_done_callback(done.put)
        for _ in range(len(running)):
            future = _next(done, client)
            try:
                made[running[future]] = future.result()
            except Exception as error:  # the points of workers that died are made here
                if not _is_death(error):
                    raise
    return [receive_point(base, chosen, each) for chosen, each in zip(values, made, strict=True)]


def _threads(client: Client) -> int:
    return sum(client.nthreads().values())


def _next(done: SimpleQueue[Future[T]], client: Client | None) -> Future[T]:
    """Wait for the next finished chunk.

    Raises FailedError if a cluster has had no workers for long. A worker that hangs does not count
    when its scheduler has not heard from it for ``distributed.scheduler.worker-ttl``.
    """
    last_seen = monotonic()
    while client is not None:
        with suppress(Empty):
            return done.get(timeout=_LOOKS_EVERY)
        if _has_workers(client):
            last_seen = monotonic()
        elif monotonic() - last_seen > _BACK_WITHIN:
            raise FailedError(
                f"--dask: the scheduler has had no workers for {_BACK_WITHIN:g} s (--resume goes "
                "on)"
            )
    return done.get()


def _has_workers(client: Client) -> bool:
    try:
        return bool(client.sync(client.scheduler.ncores, callback_timeout=_CONNECT_WITHIN))
    except (OSError, TimeoutError):  # the scheduler hangs or is gone; the futures will notice
        return False


def _is_death(error: Exception) -> bool:
    """Return whether an error means that a worker was lost."""
    # Match Dask's error by name, because Dask may not be installed.
    return isinstance(error, BrokenProcessPool) or type(error).__name__ == "KilledWorker"


@contextmanager
def _pool(workers: int, client: Client | None) -> Iterator[Executor]:
    """Yield a pool of processes of this machine, or of a cluster's workers.

    One worker has answered before, so that later deaths are caused by the work.
    """
    if client is not None:
        yield client.get_executor(pure=False)
        return
    # Unlike the standard library's, loky's processes do not run the caller's script again, so it
    # needs no `if __name__ == "__main__"`.
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
    """Raise DpsimError if ``dask`` is not the address of a scheduler."""
    # With such an address, a client would print its own error.
    if dask is not None and not re.search(r":\d+$|^inproc://", dask):
        raise DpsimError(
            f"--dask: must be a scheduler's address, such as tcp://host:8786, but got {dask!r}"
        )


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """Yield a connection to the scheduler at ``address``.

    Raises FailedError if it cannot be reached, is lost, or has no workers.
    """
    try:
        from distributed import Client
    except ImportError:
        raise DpsimError(f"--dask needs Dask; {how_to_install('cluster')}") from None
    # Errors are reported below, not as logged tracebacks.
    for logs in ("distributed.client", "distributed.batched", "tornado.application"):
        logging.getLogger(logs).setLevel(logging.CRITICAL)
    try:
        client: Any = Client(address, timeout=_CONNECT_WITHIN, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise FailedError(
            f"--dask: no scheduler answers at {address!r}: {str(error).splitlines()[0]}"
        ) from None
    with client:
        try:
            # Workers that have just died may be restarting.
            client.wait_for_workers(1, timeout=_CONNECT_WITHIN)
        except TimeoutError:
            raise FailedError(f"--dask: the scheduler at {address} has no workers") from None
        try:
            yield client
        except CancelledError:
            raise FailedError(
                f"--dask: the scheduler at {address} has gone (--resume goes on)"
            ) from None
