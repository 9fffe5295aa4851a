"""Timelines of synchronisation strategies on the same compute times.

Compute times are drawn by seed, worker and step alone, so that strategies of one scenario differ
only in when workers wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpsim.engine import Gradients, Interval, Recording, run_scenario
from dpsim.scenario import Scenario

WORKERS = 4

Strategies = Mapping[str, Mapping[str, Any]]

_SERVERS = {"aggregation": {"kind": "parameter-server"}, "overlap": {"kind": "buckets"}}
_REDUCED = {"aggregation": {"kind": "allreduce"}, "overlap": {"kind": "buckets"}}

# By name: the value of a scenario's ``strategy``.
SYNCHRONISED: Strategies = {
    "BSP": {**_REDUCED, "sync": {"kind": "bsp"}},
    "backup workers": {**_SERVERS, "sync": {"kind": "backup"}},
    "SSP, at most 2 ahead": {**_SERVERS, "sync": {"kind": "ssp", "staleness": 2}},
    "ASP": {**_SERVERS, "sync": {"kind": "asp"}},
    "local SGD, averaged every 3": {**_REDUCED, "sync": {"kind": "local-sgd", "every": 3}},
    "gossip on a ring": {"aggregation": {"kind": "gossip"}, "sync": {"kind": "bsp"}},
}
OVERLAPPED: Strategies = {
    name: {"aggregation": {"kind": "allreduce"}, "overlap": {"kind": name.lower()}}
    for name in ("sequential", "WFBP", "MG-WFBP", "buckets", "priority")
}
SHARDED: Strategies = {
    "all-reduce": _REDUCED,
    "FSDP": {"aggregation": {"kind": "sharded"}, "overlap": {"kind": "wfbp"}},
}


@dataclass(frozen=True, slots=True)
class Lane:
    """One strategy: ``steps[i]`` are the intervals of step i of all workers shown."""

    name: str
    steps: tuple[tuple[Interval, ...], ...]


def lane(
    name: str, scenario: Scenario, workers: int = WORKERS, *, steps: int | None = None
) -> Lane:
    """Return the timeline of the first ``workers`` over all steps, or the first ``steps``.

    Raises DpsimError.
    """
    if steps is not None:
        few = {"steps": min(steps, scenario.run.steps), "warmup": 0}
        scenario = scenario.model_copy(update={"run": scenario.run.model_copy(update=few)})
    run = run_scenario(scenario, Recording(steps=None, workers=workers), settle=False)
    return Lane(name, tuple(tuple(run.intervals(step, workers)) for step in run.recorded))


Seen = Literal["guaranteed", "own", "in the window", "not yet"]


@dataclass(frozen=True, slots=True)
class Window:
    """The updates visible to ``worker`` when it reads parameters for its step ``clock``.

    ``seen`` has a row for each worker and an entry for each of its steps so far. SSP guarantees all
    updates up to step ``clock - staleness - 1`` and a worker's own; later ones may or may not have
    arrived (Ho et al., NeurIPS 2013, figure 1).
    """

    worker: int
    clock: int
    staleness: int
    seen: tuple[tuple[Seen, ...], ...]


def windows(scenario: Scenario, worker: int) -> tuple[Window, ...]:
    """Return the updates visible to ``worker`` at each step of one run of an SSP ``scenario``.

    Raises DpsimError as `run_scenario` does.
    """
    gradients = run_scenario(scenario, Recording(versions=True)).log.gradients
    staleness, workers = scenario.strategy.sync.lag, scenario.cluster.ranks
    its = gradients.worker == worker
    return tuple(
        Window(worker, int(clock), staleness, _rows(gradients, worker, workers, clock, staleness))
        for clock in np.sort(gradients.clock[its])
    )


def _rows(
    gradients: Gradients, worker: int, workers: int, clock: int, staleness: int
) -> tuple[tuple[Seen, ...], ...]:
    """Classify the updates of each of ``workers`` as ``worker`` sees them at step ``clock``."""
    its = (gradients.worker == worker) & (gradients.clock == clock)
    # Versions count updates: version `read` holds the updates below it.
    read, when = int(gradients.read[its][0]), float(gradients.begun[its][0])
    rows: list[tuple[Seen, ...]] = []
    for other in range(workers):
        begun = (gradients.worker == other) & (gradients.begun <= when)
        row: list[Seen] = []
        given = zip(gradients.clock[begun], gradients.update[begun], strict=True)
        for step, update in sorted(given):
            if other == worker and step >= clock:
                continue
            row.append(_seen(update < read, other == worker, step <= clock - staleness - 1))
        rows.append(tuple(row))
    return tuple(rows)


def _seen(is_in: bool, is_own: bool, is_old: bool) -> Seen:
    """Classify an update for a reader; ``is_in`` says whether the read parameters include it."""
    if not is_in:
        return "not yet"
    if is_own:
        return "own"
    return "guaranteed" if is_old else "in the window"
