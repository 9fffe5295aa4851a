"""What pages ask the library, each a function of a scenario that reports how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from app import limits
from app.reading import scenario
from app.spec import Spec
from app.work import Report
from dpsim.base.errors import DpsimError
from dpsim.base.units import DATA, RATE, TIME, parse
from dpsim.collectives import algorithm
from dpsim.engine import (
    Interval,
    Job,
    LinkLoads,
    Recording,
    Result,
    link_loads,
    prepare,
    reduction_cost,
    run_scenario,
    simulate,
)
from dpsim.network import MessageCosts, schedule_on
from dpsim.scenario import Scenario
from dpsim.studies.collective import CollectiveRow, collective_rows
from dpsim.studies.explain import KNOBS, Explanation, explain
from dpsim.studies.replay import Replay, replay
from dpsim.studies.walkthrough import Walkthrough, walk
from dpsim.topology import Network, UniformSwitch, build_cluster

SHOWN_WORKERS = 8


@dataclass(frozen=True, slots=True)
class Answer:
    """A scenario, its result, and what its first workers did in the first step that counts."""

    scenario: Scenario
    result: Result
    intervals: list[Interval]


def answer(spec: Spec, report: Report) -> Answer:
    """Simulate ``spec``. Raises DpsimError where it is wrong, or too large for a page."""
    given = _admitted(spec)
    total = given.run.steps + given.run.warmup
    run = run_scenario(
        given, Recording(steps=1, workers=SHOWN_WORKERS), lambda done: report(done, total)
    )
    return Answer(given, run.result, run.intervals(workers=SHOWN_WORKERS))


def explained(spec: Spec, report: Report) -> Explanation:
    """What limits ``spec``. Raises DpsimError."""
    done = 0

    def turned(knobs: int) -> None:
        nonlocal done
        done = knobs
        tick()

    def tick() -> None:
        report(done, len(KNOBS))

    return explain(_admitted(spec), turned, tick)


def loaded_links(spec: Spec, report: Report) -> tuple[Job, LinkLoads]:
    """The job of ``spec`` and what its links carry in a step."""
    report(0, 0)
    job = prepare(_admitted(spec))
    return job, link_loads(job)


def collectives(
    spec: Spec, algorithms: tuple[str, ...], sizes: tuple[int, ...], report: Report
) -> list[CollectiveRow]:
    """Each algorithm alone on the cluster of ``spec`` at each size (bytes).

    Those that its network cannot run are left out.
    """
    given = _admitted(spec)
    cluster, cost = build_cluster(given.cluster), reduction_cost(given.cluster.parts[0].accelerator)
    rows: list[CollectiveRow] = []
    for done, name in enumerate(algorithms):
        for number, size in enumerate(sizes):
            report(done * len(sizes) + number, len(algorithms) * len(sizes))
            try:
                rows += collective_rows(cluster, [name], [size], costs=MessageCosts(0.0, cost))
            except DpsimError:  # an algorithm for other numbers of ranks or other nodes
                break
    return rows


def walked(
    algorithms: tuple[str, ...],
    operation: str,
    size: str,
    switch: tuple[int, str, str] | None,
    spec: Spec | None,
    report: Report,
) -> list[Walkthrough]:
    """Each algorithm round by round, on vectors of ``size``.

    On a ``switch`` of (ranks, rate, latency), or on the cluster of ``spec``. Raises DpsimError.
    """
    network: Network
    costs = MessageCosts()
    if switch is None:
        assert spec is not None, "either a switch or a scenario"
        given = scenario(spec)
        network = build_cluster(given.cluster)
        costs = MessageCosts(0.0, reduction_cost(given.cluster.parts[0].accelerator))
    else:
        ranks, rate, latency = switch
        network = UniformSwitch(ranks, parse(rate, RATE), parse(latency, TIME))
    walks = []
    for done, name in enumerate(algorithms):
        report(done, len(algorithms))
        schedule = schedule_on(network, algorithm(name, operation))
        walks.append(walk(schedule, round(parse(size, DATA)), network, costs))
    return walks


def replayed(spec: Spec, report: Report) -> Replay:
    """The small model of ``spec`` trained for real in simulated time."""
    given = scenario(spec)
    run = given.run.model_copy(update={"steps": given.replay.steps, "warmup": 0})
    limits.check(given.model_copy(update={"run": run}))
    return replay(given, lambda _, done, total: report(done, total))


def varied(
    spec: Spec, path: str, values: Iterable[str], report: Report
) -> dict[str, Result | DpsimError]:
    """``spec`` with each of ``values`` (YAML) at ``path``.

    By value the result, or why there is none.
    """
    found: dict[str, Result | DpsimError] = {}
    chosen = list(values)
    for done, value in enumerate(chosen):
        report(done, len(chosen))
        try:
            found[value] = simulate(
                _admitted(spec.with_value(path, value)), _ticks(report, done, len(chosen))
            )
        except DpsimError as error:
            found[value] = error
    return found


def _ticks(report: Report, done: int, total: int) -> Callable[[int], None]:
    """Reports the same at every step, so that a cancellation is heard."""
    return lambda _: report(done, total)


def _admitted(spec: Spec) -> Scenario:
    given = scenario(spec)
    limits.check(given)
    return given
