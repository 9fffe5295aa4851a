"""The pages' queries to the library: functions of a scenario that report their progress."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from app.reading import scenario, with_fitted_times
from app.spec import Spec
from app.work import Report
from dpsim.base.errors import DpsimError
from dpsim.engine import (
    Interval,
    LinkClass,
    Recording,
    Result,
    link_classes,
    reduction_cost,
    run_scenario,
    simulate,
)
from dpsim.network import MessageCosts
from dpsim.report.text.tables import calibration_note
from dpsim.studies.collective import CollectiveRow, collective_rows
from dpsim.studies.explain import KNOBS, CriticalPath, Trust, Turn, explain, trust
from dpsim.studies.replay import Replay, replay
from dpsim.topology import build_cluster

PATH = "critical path"  # beside the names of knobs
SCALED_STEPS = 4
MOST_SCALED = 4_096  # GPUs
_POINTS = 5  # approximate number on a scaling curve


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a scenario, its links, and intervals of some workers in a step.

    ``workers`` maps "typical", "slowest" and "fastest" to the workers in ``intervals``.
    """

    result: Result
    intervals: Mapping[int, list[Interval]]
    workers: Mapping[str, int]
    links: Sequence[LinkClass]


def answer(spec: Spec, report: Report) -> Answer:
    """Simulate ``spec``. Raises DpsimError if it is invalid, or too large for a page."""
    given = scenario(spec)
    total = given.run.steps + given.run.warmup
    run = run_scenario(given, Recording(steps=1), lambda done: report(done, total))
    # Record intervals of only three workers: there may be thousands.
    workers = run.extremes()
    intervals = {who: run.intervals(workers=[who]) for who in set(workers.values())}
    links = link_classes(run.job.network, run.link_loads)
    return Answer(run.result, intervals, workers, links)


def traced(spec: Spec) -> str:
    """Return the first steps of ``spec`` as a Perfetto trace (JSON). Raises DpsimError."""
    # Imported here, since only one button needs it.
    from dpsim.report.trace import STEPS, trace

    return json.dumps(trace(run_scenario(scenario(spec), Recording(STEPS))), allow_nan=False)


def counted_nodes(spec: Spec) -> int:
    """Return the nodes of ``spec``; 0 for a testbed, or several kinds of nodes."""
    given = scenario(spec)
    return 0 if given.cluster.groups or given.testbed is not None else given.cluster.nodes


def node_counts(spec: Spec) -> list[str]:
    """Return a few node counts for a curve around ``spec``'s; empty if it has none."""
    nodes = counted_nodes(spec)
    if not nodes:
        return []
    each = scenario(spec).cluster.ranks // nodes
    most = max(min(4 * nodes, MOST_SCALED // each), nodes)
    doubled = [2**power for power in range(most.bit_length()) if 2**power <= most]
    every = -(-len(doubled) // (_POINTS - 1))
    # Thinned from the largest down, so that the largest is included.
    return [str(count) for count in sorted({*doubled[::-1][::every], 1, nodes})]


def scaled(spec: Spec, report: Report) -> dict[str, Result | DpsimError]:
    """Simulate ``spec`` at several other node counts, a few steps each."""
    others = node_counts(spec)
    others.remove(str(scenario(spec).cluster.nodes))
    few = few_steps(with_fitted_times(spec))
    specs = [(nodes, few.with_value("cluster.nodes", nodes)) for nodes in others]
    return simulate_each(specs, report)


def few_steps(spec: Spec) -> Spec:
    """Return ``spec`` with enough steps to compare set-ups."""
    run = scenario(spec).run
    few = spec.with_value("run.steps", str(min(run.steps, SCALED_STEPS)))
    return few.with_value("run.warmup", str(min(run.warmup, 1)))


def explained(spec: Spec, report: Callable[..., None]) -> dict[str, Any]:
    """Return each kind's share of the critical path (`PATH`), and each knob's effect by its name.

    Knobs are rows of ``dpsim explain --json``, the best first. ``report`` gets each part as soon as
    it is found. Raises DpsimError.
    """
    turned: set[str] = set()

    def found(part: CriticalPath | Turn) -> None:
        if isinstance(part, Turn):
            turned.add(part.name)
        report(len(turned), len(KNOBS), _fields_of(part))

    # A knob takes many steps: each reports the knobs turned so far, to notice cancellation.
    every = explain(scenario(spec), tick=lambda: report(len(turned), len(KNOBS)), found=found)
    parts: tuple[CriticalPath | Turn, ...] = (every.path, *every.turns)
    return dict(chain(*(_fields_of(part).items() for part in parts)))


def _fields_of(part: CriticalPath | Turn) -> dict[str, Any]:
    if isinstance(part, Turn):
        return {part.name: part.to_json()}
    return {PATH: {kind: seconds / part.seconds for kind, seconds in part.by_kind.items()}}


def trusted(spec: Spec, report: Report) -> tuple[Trust, str]:
    """Return the parts of ``spec``'s interval, and the source of its compute times.

    Raises DpsimError.
    """
    run = run_scenario(scenario(spec), progress=partial(_tick, report, 0, 1))
    return trust(run), calibration_note(run.result.calibration)


def collectives(
    spec: Spec, algorithms: tuple[str, ...], sizes: tuple[int, ...], report: Report
) -> list[CollectiveRow]:
    """Time each algorithm, without other traffic, on the cluster of ``spec`` at each size (bytes).

    Leaves out those that its network cannot run.
    """
    given = scenario(spec)
    cluster, cost = build_cluster(given.cluster), reduction_cost(given.cluster.parts[0].accelerator)
    rows: list[CollectiveRow] = []
    for done, name in enumerate(algorithms):
        # An algorithm may require another number of ranks or nodes, whatever the size.
        with suppress(DpsimError):
            for number, size in enumerate(sizes):
                report(done * len(sizes) + number, len(algorithms) * len(sizes))
                rows += collective_rows(cluster, [name], [size], costs=MessageCosts(0.0, cost))
    return rows


def replayed(spec: Spec, report: Report) -> Replay:
    """Train the small model of ``spec`` in simulated time."""
    return replay(scenario(spec), lambda _, done, total: report(done, total))


def simulate_each(
    specs: Sequence[tuple[str, Spec]], report: Report
) -> dict[str, Result | DpsimError]:
    """Simulate each of ``specs``, and return the results, or the errors, by name."""
    found: dict[str, Result | DpsimError] = {}
    for done, (name, spec) in enumerate(specs):
        report(done, len(specs))
        try:
            # Every step reports the same progress, to notice cancellation.
            found[name] = simulate(scenario(spec), partial(_tick, report, done, len(specs)))
        except DpsimError as error:
            # An error is an answer too: the page shows it beside the others.
            found[name] = error
    return found


def _tick(report: Report, done: int, total: int, _: int) -> None:
    report(done, total)
