"""Simulate scenario files into a folder of results: ``dpsim sweep`` and ``dpsim.sweep``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import cache, partial

from dpsim.base.budget import check_memory
from dpsim.base.errors import DpsimError
from dpsim.studies.sweep.execute import check_address, connected, execute, points_by
from dpsim.studies.sweep.expand import Plan, plan, points_here
from dpsim.studies.sweep.store import Store
from dpsim.studies.sweep.summary import Sweep, manifest
from dpsim.studies.sweep.tables import points_table, results_table

_WORKER_BYTES = 7e7  # of a process with a small scenario; the quickstart's peak is 75 MB


def sweep(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    workers: int | None = None,
    dask: str | None = None,
    resume: bool = False,
    overrides: Iterable[str] = (),
    started: Callable[[Sweep], None] = lambda sweep: None,
    progress: Callable[[int], None] = lambda done: None,
) -> Sweep:
    """Simulate every point of scenario files, and of folders of them, into the folder ``output``.

    ``workers`` is the number of processes, by default one per core; ``dask`` is instead the address
    of a Dask scheduler, such as ``tcp://host:8786``. ``resume`` continues an existing folder and
    computes only missing or damaged points. ``overrides``: ``key=value`` for every file.
    ``started`` gets the sweep before anything is simulated, ``progress`` the number of computed
    scenarios.

    Points that fail are rows with their ``error``. A kill loses only the scenarios in flight, some
    seconds of work. Raises ScenarioError for unusable files, DpsimError for an unusable folder,
    FailedError if the folder cannot be written or no workers are available.
    """
    from loky import cpu_count

    if workers is not None and (workers < 1 or dask is not None):
        raise DpsimError(
            "workers must be at least 1, and stand without dask, but got "
            f"{workers}{' with dask' if dask else ''}"
        )
    check_address(dask)
    listed = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    with ExitStack() as stack:
        # Connect once, after files have been read, to make points and to compute them.
        client = cache(lambda: stack.enter_context(connected(dask)) if dask else None)
        make = partial(points_by, client) if dask else points_here
        planned = plan(listed, overrides, make)
        store = stack.enter_context(Store(output).open(resume))
        begun = _begin(store, planned)
        started(begun)
        missing = begun.missing
        # More processes than points would only take memory.
        number = min(workers or cpu_count(), max(1, len(missing)))
        check_memory(number * _WORKER_BYTES, f"{number:,} workers", "take fewer workers")
        for done, _ in enumerate(execute(missing, store, number, client()), 1):
            progress(done)
        return _end(store, begun)


def _begin(store: Store, planned: Plan) -> Sweep:
    """Write the manifest and the points, and return the sweep with the existing rows."""
    # Remove old results. Write the manifest after the points, so that a folder with a manifest has
    # both.
    store.remove("results.parquet")
    store.write_table("points.parquet", points_table(planned))
    store.write_manifest(manifest(planned))
    damage = store.damage
    return Sweep(store.folder, planned, store.rows(), damage=damage)


def _end(store: Store, begun: Sweep) -> Sweep:
    """Write the table of all points."""
    rows = store.rows()
    store.write_table("results.parquet", results_table(store.points(), rows))
    return Sweep(begun.folder, begun.plan, rows, begun.rows, begun.damage)
