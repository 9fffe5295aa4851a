"""What pages ask the library, each a function of a scenario that reports how far it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.fitted_times import with_fitted_times
from app.limits import check
from app.reading import admitted, scenario
from app.spec import Spec
from app.work import Report
from dpsim.base.errors import DpsimError
from dpsim.engine import (
    Interval,
    Job,
    LinkClass,
    LinkLoads,
    MemoryUse,
    Recording,
    Result,
    link_classes,
    memory_use,
    reduction_cost,
    remedy_values,
    run_scenario,
    simulate,
)
from dpsim.network import MessageCosts
from dpsim.scenario import Scenario
from dpsim.studies.collective import CollectiveRow, collective_rows
from dpsim.studies.explain import KNOBS, Explanation, as_options, explain
from dpsim.studies.replay import Replay, replay
from dpsim.topology import build_cluster

SCALED_STEPS = 4
MOST_SCALED = 4_096  # GPUs
_POINTS = 5  # of a scaling curve, about


@dataclass(frozen=True, slots=True)
class Answer:
    """A scenario, its result, what some workers did in the first step that counts, and its links.

    ``workers``: "typical", "slowest" and "fastest", by which ``intervals`` are kept.
    """

    scenario: Scenario
    result: Result
    intervals: Mapping[int, list[Interval]]
    workers: Mapping[str, int]
    links: Sequence[LinkClass]


@dataclass(frozen=True, slots=True)
class Way:
    """A way to make a scenario fit: in words, as options, what it then holds and costs.

    ``slower``: the change of the time per sample, against the same simulated though it does not
    fit. ``why_not``: why it cannot be, empty where it can.
    """

    words: str
    options: tuple[str, ...]
    held: float
    slower: float
    why_not: str = ""


def answer(spec: Spec, report: Report) -> Answer:
    """Simulate ``spec``. Raises DpsimError where it is wrong, or too large for a page."""
    given = admitted(spec)
    total = given.run.steps + given.run.warmup
    run = run_scenario(given, Recording(steps=1), lambda done: report(done, total))
    # Intervals of three workers and not of all: there may be thousands.
    workers = run.extremes()
    intervals = {who: run.intervals(workers=[who]) for who in set(workers.values())}
    links = link_classes(run.job.network, run.link_loads)
    return Answer(given, run.result, intervals, workers, links)


def traced(spec: Spec) -> str:
    """The first steps of ``spec`` as a trace for Perfetto (JSON). Raises DpsimError."""
    # On demand: a trace is asked for by one button.
    from dpsim.report.trace import STEPS, trace

    return json.dumps(trace(run_scenario(admitted(spec), Recording(STEPS))), allow_nan=False)


def node_counts(spec: Spec) -> list[str]:
    """Numbers of nodes for a curve around that of ``spec``, a few; empty where there is no one.

    A cluster of several kinds of nodes, or a testbed, has none.
    """
    given = scenario(spec)
    if given.cluster.groups or given.testbed is not None:
        return []
    nodes = given.cluster.nodes
    each = given.cluster.ranks // nodes
    most = max(min(4 * nodes, MOST_SCALED // each), nodes)
    doubled = [2**power for power in range(most.bit_length()) if 2**power <= most]
    every = -(-len(doubled) // (_POINTS - 1))
    # Thinned from the largest down, so that it is among them.
    return [str(count) for count in sorted({*doubled[::-1][::every], 1, nodes})]


def scaled(spec: Spec, own: Result, report: Report) -> dict[str, Result | DpsimError]:
    """``spec``, whose result is ``own``, at several numbers of nodes, a few steps each."""
    others = node_counts(spec)
    # The scenario's own point is known, with more steps than those of the others.
    others.remove(str(scenario(spec).cluster.nodes))
    return {**varied(few_steps(spec), "cluster.nodes", others, report), "own": own}


def few_steps(spec: Spec) -> Spec:
    """``spec`` with as many steps as tell what changes between set-ups."""
    run = scenario(spec).run
    few = spec.with_value("run.steps", str(min(run.steps, SCALED_STEPS)))
    return few.with_value("run.warmup", str(min(run.warmup, 1)))


def memory_of(spec: Spec) -> MemoryUse:
    """What ``spec`` holds on each GPU, whether or not it fits. Raises DpsimError."""
    return memory_use(scenario(spec))


def ways_to_fit(spec: Spec, report: Report) -> list[Way]:
    """Each remedy of what does not fit, simulated."""
    given = scenario(spec)
    remedies = memory_of(spec).remedies()
    few = few_steps(spec)
    report(0, len(remedies) + 1)
    # The ways' costs are told against the scenario as if it did fit.
    base = simulate(admitted(few.with_value("run.allow_out_of_memory", "true")))

    found = []
    for done, remedy in enumerate(remedies, 1):
        report(done, len(remedies) + 1)
        options = tuple(as_options(remedy_values(given, remedy)))
        found.append(_way(few, remedy.text, options, base))
    return found


def _way(spec: Spec, words: str, options: tuple[str, ...], base: Result) -> Way:
    tried = spec.with_options(options)
    try:
        held = memory_of(tried).held.total
        result = simulate(admitted(tried))
    except DpsimError as error:
        return Way(words, options, 0.0, 0.0, str(error).partition("\n")[0])
    slower = base.throughput_samples_per_s / result.throughput_samples_per_s - 1
    return Way(words, options, held, slower)


def explained(spec: Spec, report: Report) -> Explanation:
    """What limits ``spec``. Raises DpsimError."""
    # A knob takes many steps: each reports the knobs turned so far, so that a cancellation is
    # heard.
    done = 0

    def turned(knobs: int) -> None:
        nonlocal done
        done = knobs
        tick()

    def tick() -> None:
        report(done, len(KNOBS))

    return explain(admitted(spec), turned, tick)


def loaded_links(spec: Spec, report: Report) -> tuple[Job, LinkLoads]:
    """The job of ``spec`` and what its links carry in a step, in the mean."""
    given = admitted(spec)
    total = given.run.steps + given.run.warmup
    run = run_scenario(given, progress=lambda done: report(done, total))
    return run.job, run.link_loads


def collectives(
    spec: Spec, algorithms: tuple[str, ...], sizes: tuple[int, ...], report: Report
) -> list[CollectiveRow]:
    """Each algorithm alone on the cluster of ``spec`` at each size (bytes).

    Those that its network cannot run are left out.
    """
    given = admitted(spec)
    cluster, cost = build_cluster(given.cluster), reduction_cost(given.cluster.parts[0].accelerator)
    rows: list[CollectiveRow] = []
    for done, name in enumerate(algorithms):
        for number, size in enumerate(sizes):
            report(done * len(sizes) + number, len(algorithms) * len(sizes))
            try:
                rows += collective_rows(cluster, [name], [size], costs=MessageCosts(0.0, cost))
            except DpsimError:
                # It is for other numbers of ranks or other nodes, whatever the size.
                break
    return rows


def replayed(spec: Spec, report: Report) -> Replay:
    """The small model of ``spec`` trained for real in simulated time."""
    given = scenario(spec)
    # Training takes its own number of steps, without warm-up: what it takes is judged by those.
    run = given.run.model_copy(update={"steps": given.replay.steps, "warmup": 0})
    check(given.model_copy(update={"run": run}))
    return replay(given, lambda _, done, total: report(done, total))


def varied(
    spec: Spec, path: str, values: Iterable[str], report: Report
) -> dict[str, Result | DpsimError]:
    """``spec`` with each of ``values`` (YAML) at ``path``.

    By value the result, or why there is none.
    """
    spec = with_fitted_times(spec)
    return tried([(value, spec.with_value(path, value)) for value in values], report)


def tried(specs: Sequence[tuple[str, Spec]], report: Report) -> dict[str, Result | DpsimError]:
    """By name the result of each of ``specs``, or why there is none."""
    found: dict[str, Result | DpsimError] = {}
    for done, (name, spec) in enumerate(specs):
        report(done, len(specs))
        try:
            found[name] = simulate(admitted(spec), _ticks(report, done, len(specs)))
        except DpsimError as error:
            # What is wrong with one is its answer: the page says it beside the others.
            found[name] = error
    return found


def _ticks(report: Report, done: int, total: int) -> Callable[[int], None]:
    """Reports the same at every step, so that a cancellation is heard."""
    return lambda _: report(done, total)
