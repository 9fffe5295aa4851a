"""Many scenarios on many processes.

Joblib shares them out, in groups where they are small, here (loky) or on a Dask cluster.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dpsim.base.errors import DpsimError, FailedError, how_to_install
from dpsim.studies.sweep.compute import Workplace, compute
from dpsim.studies.sweep.journal import Row
from dpsim.studies.sweep.store import Store

if TYPE_CHECKING:
    from distributed import Client

_CONNECT_WITHIN = 10  # seconds
_DEATHS_WITHOUT_A_ROW = 3
_KILLER = "failed: its worker process was killed while it was alone with it, as for want of memory"


def execute(
    contents: Mapping[str, bytes], store: Store, workers: int, dask: str | None
) -> Iterator[Row]:
    """The rows of pickled scenarios by key, as they are done, each written down before.

    When a worker dies, what was in flight goes on one by one, and the rest together; a scenario
    that kills its worker again is a row with an error. Raises FailedError where workers die before
    they have begun anything, or the cluster cannot be reached.
    """
    with _client(dask) as client:
        waiting, idle_deaths = dict(contents), 0
        while waiting:
            before = len(waiting)
            suspects: set[str] = set()
            yield from _until_death(waiting, waiting, store, workers, client, suspects)
            for key in sorted(suspects & waiting.keys()):
                # Joblib runs a single worker in this very process, which would be killed instead.
                yield from _alone(key, waiting, store, max(workers, 2), client)
            idle_deaths = idle_deaths + 1 if len(waiting) == before else 0
            if idle_deaths == _DEATHS_WITHOUT_A_ROW:
                raise FailedError(
                    f"{store.folder}: workers die before they begin, {len(waiting):,} points are "
                    "missing (--resume goes on)"
                )


def _alone(
    key: str, waiting: dict[str, bytes], store: Store, workers: int, client: Client | None
) -> Iterator[Row]:
    """The row of one scenario that was in flight when a worker died.

    No other scenario runs beside it.
    """
    suspects: set[str] = set()
    yield from _until_death(waiting, [key], store, workers, client, suspects)
    if key in suspects and key in waiting:
        row = {"key": key, "error": _KILLER, "retry": True, "worker": "none", "seconds": 0.0}
        store.note(row)
        del waiting[key]
        yield row


def _until_death(
    waiting: dict[str, bytes],
    keys: Iterable[str],
    store: Store,
    workers: int,
    client: Client | None,
    suspects: set[str],
) -> Iterator[Row]:
    """Rows until all are there or a worker dies; ``suspects`` gets what was in flight then.

    Rows leave ``waiting``.
    """
    try:
        for row in _parallel(waiting, list(keys), store, workers, client):
            if not row["kept"]:
                store.note(row)
            del waiting[row["key"]]
            yield row
        return
    except Exception as error:
        if not _is_death(error):
            raise
    # The pool says that a worker died, not which, nor at what: the journals do.
    suspects |= store.in_flight()
    rows = store.rows()
    # Done by workers that could not hand it over any more.
    done = [key for key in waiting if key in rows and not rows[key]["retry"]]
    for key in done:
        del waiting[key]
        yield rows[key]


def _parallel(
    contents: Mapping[str, bytes],
    keys: list[str],
    store: Store,
    workers: int,
    client: Client | None,
) -> Iterator[Row]:
    from joblib import Parallel, delayed, parallel_config

    # With one worker, or with Dask, the process that works is no child of this one.
    own = client is None and workers > 1
    where = Workplace(store.journals.absolute(), os.getpid() if own else None)
    config = (
        parallel_config(backend="dask", client=client)
        if client
        else parallel_config(backend="loky", n_jobs=workers)
    )
    with config:
        # Rows come as they are done: in order, one slow point would hold back all behind it.
        jobs = Parallel(return_as="generator_unordered")
        yield from jobs(delayed(compute)(key, contents[key], where) for key in keys)


def _is_death(error: Exception) -> bool:
    """Whether a worker was lost, and not a row refused."""
    # By name: the classes are those of loky, of Python and of Dask, which may not be installed.
    return type(error).__name__ in ("TerminatedWorkerError", "BrokenProcessPool", "KilledWorker")


def check_address(dask: str | None) -> None:
    """Raises DpsimError for what is no address of a Dask scheduler."""
    # A client of such an address prints an error of its own when it is dropped.
    if dask is not None and not re.search(r":\d+$|^inproc://", dask):
        raise DpsimError(
            f"--dask: must be a scheduler's address, such as tcp://host:8786, but got {dask!r}"
        )


@contextmanager
def _client(address: str | None) -> Iterator[Client | None]:
    """A connection to the scheduler at ``address``; None for workers of this machine."""
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise DpsimError(f"--dask needs Dask; {how_to_install('cluster')}") from None
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
        yield client
