"""Timelines of synchronisation strategies on the same compute times.

Compute times depend only on seed, worker and step, so strategies differ only in when workers wait.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from statistics import fmean
from typing import Any, Literal, NamedTuple

import numpy as np

from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.engine import Gradients, Interval, Recording, run_scenario
from dpsim.scenario import Scenario, load_scenario

WORKERS = 4

Strategies = Mapping[str, Mapping[str, Any]]

_SERVERS = {"aggregation": {"kind": "parameter-server"}, "overlap": {"kind": "buckets"}}
_REDUCED = {"aggregation": {"kind": "allreduce"}, "overlap": {"kind": "buckets"}}

SSP = "SSP, at most 2 ahead"

# The values of a scenario's ``strategy``, by the names shown.
SYNCHRONISED: Strategies = {
    "BSP": {**_REDUCED, "sync": {"kind": "bsp"}},
    "backup workers": {**_SERVERS, "sync": {"kind": "backup"}},
    SSP: {**_SERVERS, "sync": {"kind": "ssp", "staleness": 2}},
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


class View(NamedTuple):
    """Strategies to show together, for a number of workers and steps."""

    strategies: Strategies
    workers: int
    steps: int
    title: str


# Waiting builds up over several steps, whereas overlap is the same in each step.
VIEWS: Mapping[str, View] = {
    "synchronisation": View(SYNCHRONISED, WORKERS, 8, "Four workers, the same computing"),
    "overlap": View(OVERLAPPED, 1, 2, "One worker, the same computing"),
    "sharding": View(SHARDED, 1, 2, "One worker, with whole weights and with a share of them"),
}

# Overrides by path that reduce a scenario to four workers, one per node, with slight jitter.
_FOUR_WORKERS: Mapping[str, str] = {
    "cluster.nodes": str(WORKERS),
    "cluster.gpus_per_node": "1",
    "run.warmup": "0",
    "run.allow_out_of_memory": "true",
    # Not every engine or network model can simulate all strategies.
    "run.engine": "auto",
    "run.network_model": "auto",
    "calibration": "catalogue",  # a measured cell of several GPUs is one worker
    "disturbance": "{jitter: {kind: lognormal, sigma: 0.1}}",
}


def slow_last(factor: str) -> str:
    """Return ``disturbance.slow`` if the last worker computes ``factor`` times as long."""
    return f"[{{workers: [{WORKERS - 1}], factor: {factor}}}]"


def four_workers(scenario: Scenario) -> list[str]:
    """Return the options that reduce a scenario to four undisturbed workers, one per node.

    Raises DpsimError if its nodes are of several kinds.
    """
    if scenario.cluster.groups or scenario.testbed is not None:
        raise DpsimError("cluster must have nodes of one kind, of which four workers are shown")
    return [f"{path}={value}" for path, value in _FOUR_WORKERS.items()]


@dataclass(frozen=True, slots=True)
class Lane:
    """One strategy: ``steps[i]`` are the intervals of step i of all shown workers."""

    name: str
    steps: tuple[tuple[Interval, ...], ...]

    @property
    def mean_end(self) -> float:
        """The mean time at which workers finish, from the first start of any."""
        ends: dict[int, float] = {}
        for each in chain.from_iterable(self.steps):
            ends[each.worker] = max(each.end, ends.get(each.worker, 0.0))
        begin = min(each.start for each in chain.from_iterable(self.steps))
        return fmean(ends.values()) - begin


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


def lanes(
    strategies: Strategies,
    with_strategy: Callable[[Mapping[str, Any]], Scenario],
    workers: int,
    progress: Callable[[int], None],
) -> tuple[list[Lane], dict[str, DpsimError]]:
    """Return the timelines of ``strategies``, and why others are impossible, by name."""
    timelines_found, refused = list[Lane](), dict[str, DpsimError]()
    for done, (name, strategy) in enumerate(strategies.items()):
        progress(done)
        try:
            timelines_found.append(lane(name, with_strategy(strategy), workers))
        except DpsimError as error:
            refused[name] = error
    return timelines_found, refused


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

    Raises DpsimError like `run_scenario`.
    """
    gradients = run_scenario(scenario, Recording(versions=True)).log.gradients
    staleness, workers = scenario.strategy.sync.lag, scenario.cluster.ranks
    of_worker = gradients.worker == worker
    return tuple(
        Window(worker, int(clock), staleness, _rows(gradients, worker, workers, clock, staleness))
        for clock in np.sort(gradients.clock[of_worker])
    )


def _rows(
    gradients: Gradients, worker: int, workers: int, clock: int, staleness: int
) -> tuple[tuple[Seen, ...], ...]:
    """Classify the updates of each worker for ``worker`` at step ``clock``."""
    of_worker = (gradients.worker == worker) & (gradients.clock == clock)
    # Versions count updates: version `read` holds the updates below it.
    read, when = int(gradients.read[of_worker][0]), float(gradients.begun[of_worker][0])
    rows: list[tuple[Seen, ...]] = []
    for other in range(workers):
        begun = (gradients.worker == other) & (gradients.begun <= when)
        pairs = zip(gradients.clock[begun], gradients.update[begun], strict=True)
        rows.append(
            tuple(
                _classify(update < read, other == worker, step <= clock - staleness - 1)
                for step, update in sorted(pairs)
                if other != worker or step < clock
            )
        )
    return tuple(rows)


def _classify(is_in: bool, is_own: bool, is_old: bool) -> Seen:
    """Classify an update for a reader; ``is_in``: the read parameters include it."""
    if not is_in:
        return "not yet"
    if is_own:
        return "own"
    return "guaranteed" if is_old else "in the window"


@dataclass(frozen=True, slots=True)
class Timelines:
    """The strategies of a view over time; ``left_out`` has reasons by name.

    ``windows``: SSP's window at each step of worker 0, if the view shows SSP. The command shows the
    one at ``step``, counted from 1.
    """

    of: str
    lanes: tuple[Lane, ...]
    left_out: Mapping[str, str]
    windows: tuple[Window, ...]
    step: int

    @property
    def window(self) -> Window | None:
        """The window at `step`, or at the last one; None without windows."""
        return self.windows[min(self.step, len(self.windows)) - 1] if self.windows else None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the command."""
        return {
            "schema_version": 1,
            "kind": "timelines",
            "of": self.of,
            "strategies": [
                {
                    "name": lane.name,
                    "mean_end_s": lane.mean_end,
                    "intervals": [
                        {
                            "step": step,
                            "worker": each.worker,
                            "stream": each.stream,
                            "name": each.name,
                            "start_s": each.start,
                            "end_s": each.end,
                        }
                        for step, intervals in enumerate(lane.steps)
                        for each in intervals
                    ],
                }
                for lane in self.lanes
            ],
            "left_out": dict(self.left_out),
            "window": None if self.window is None else asdict(self.window),
        }


def timelines(
    path: str | os.PathLike[str],
    of: str = "synchronisation",
    *,
    slower: float = 2.0,
    step: int = 5,
    overrides: Iterable[str] = (),
    progress: Callable[[int], None] = lambda done: None,
) -> Timelines:
    """Return the strategies of one of `VIEWS` for the scenario in a file.

    To compare synchronisation, the last worker takes ``slower`` times as long, and SSP's window is
    that of worker 0 at ``step``, counted from 1. Raises DpsimError if the scenario is unusable or
    allows no strategy.
    """
    fixed = list(overrides)
    return timelines_of(
        lambda options: load_scenario(path, [*fixed, *options]),
        of,
        slower=slower,
        step=step,
        progress=progress,
    )


def timelines_of(
    with_options: Callable[[list[str]], Scenario],
    of: str,
    *,
    slower: float = 2.0,
    step: int = 5,
    progress: Callable[[int], None] = lambda done: None,
) -> Timelines:
    """Return `timelines` of the scenario that ``with_options`` makes with ``key=value`` options."""
    if of not in VIEWS:
        raise UnknownNameError("view", of, VIEWS)
    view = VIEWS[of]
    changes = [*four_workers(with_options([])), f"run.steps={view.steps}"]
    if of == "synchronisation":
        changes.append(f"disturbance.slow={slow_last(f'{slower:g}')}")

    def with_strategy(strategy: Mapping[str, Any]) -> Scenario:
        return with_options([*changes, f"strategy={json.dumps(strategy)}"])

    found, refused = lanes(view.strategies, with_strategy, view.workers, progress)
    left_out = {name: str(error) for name, error in refused.items()}
    if not found:
        raise DpsimError(next(iter(left_out.values())))
    seen: tuple[Window, ...] = ()
    if of == "synchronisation" and SSP not in left_out:
        seen = windows(with_strategy(SYNCHRONISED[SSP]), 0)
    return Timelines(of, tuple(found), left_out, seen, step)
