"""One scenario many ways, or several side by side.

Variants of a scenario, whole scenarios, and nodes counted up; ranked by what counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dpsim.base.doubt import CONFIDENCE
from dpsim.base.errors import DpsimError, without_ways_out
from dpsim.base.lazy import Shown
from dpsim.base.registry import Registry
from dpsim.engine import Result, try_simulate
from dpsim.scenario import Scenario, load_scenario
from dpsim.studies.variants import Variant, variants


@dataclass(frozen=True, slots=True)
class Ranking:
    """What variants are ranked by: the least comes first. ``read``: None where it is not known.

    ``of_time``: it is in proportion to the step, and so are the models' errors of it. ``of_money``:
    it can be compared in one currency alone.
    """

    name: str
    title: str
    read: Callable[[Result], float | None]
    of_time: bool = True
    of_money: bool = False


def _gpu_time(result: Result) -> float | None:
    """GPU seconds of a sample, which every price multiplies alike."""
    return result.workers / result.throughput_samples_per_s


RANKINGS: Registry[Ranking] = Registry(
    "ranking",
    {
        each.name: each
        for each in (
            Ranking(
                "sample-time", "time per sample", lambda result: 1 / result.throughput_samples_per_s
            ),
            Ranking("step-time", "step time", lambda result: result.step_time_s["mean"]),
            Ranking("time-to-target", "time to the target", lambda result: result.time_to_target_s),
            Ranking("gpu-time", "GPU time per sample", _gpu_time),
            Ranking(
                "price",
                "price per sample",
                lambda result: result.price_per_million_samples,
                of_money=True,
            ),
            Ranking(
                "memory",
                "memory on a GPU",
                lambda result: None if result.memory is None else result.memory.held.total,
                of_time=False,
            ),
            Ranking(
                "bytes",
                "bytes sent per sample",
                lambda result: result.bytes_per_sample,
                of_time=False,
            ),
        )
    },
)


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """A variant: the ``values`` set in the file by path, none for the file as it is.

    Where several files are compared, ``file`` is the first of them.
    """

    values: Variant
    result: Result

    def to_json(self) -> dict[str, Any]:
        """A row of ``dpsim compare --json``."""
        return {"variant": self.values, **self.result.to_json()}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A variant that cannot be simulated, and why: it does not fit in memory, say."""

    values: Variant
    reason: str

    def __str__(self) -> str:
        values = ", ".join(f"{path}={value}" for path, value in self.values.items())
        return f"left out: {values or 'the file as it is'}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """One of ``left_out`` of ``dpsim compare --json``."""
        return {"variant": self.values, "reason": self.reason}


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Shown):
    """Variants of scenarios, best first by ``ranking``; what it is not known of comes last."""

    rows: tuple[Compared, ...]
    ranking: Ranking
    left_out: tuple[LeftOut, ...] = ()

    def __repr__(self) -> str:
        best = ", ".join(f"{key}={value}" for key, value in self.best.values.items())
        title = self.ranking.title
        return f"<Comparison of {len(self.rows)} by {title}: {best or 'the file as it is'}>"

    @property
    def best(self) -> Compared:
        """The first."""
        return self.rows[0]

    def change(self, row: Compared) -> float | None:
        """What a variant is ranked by over that of the best, less 1; None where it is not known."""
        best, own = self.ranking.read(self.best.result), self.ranking.read(row.result)
        # A best of 0, such as no bytes sent, has no ratio.
        return None if not best or own is None else own / best - 1

    def is_best_too(self, row: Compared) -> bool | None:
        """Whether the models' errors leave open if a variant is better than the best.

        None where it is ranked by what has no such error.
        """
        best, own = self.ranking.read(self.best.result), self.ranking.read(row.result)
        # Intervals are of ratios, and to a price of 0 there is none.
        if not self.ranking.of_time or not best or not own:
            return None
        return self.best.result.alike(row.result, best, own)

    @property
    def notes(self) -> list[str]:
        """What is to be known of the order, a sentence each."""
        alike = [row for row in self.rows[1:] if self.is_best_too(row)]
        said = []
        if alike:
            said.append(
                f"~ is not told apart from the best by the models' errors ({CONFIDENCE:.0%}); "
                "errors that both share (the same GPU, the same network) cancel in differences"
            )
        libraries = {each.library for row in self.rows for each in row.result.libraries}
        if len(libraries) > 1:
            said.append(
                f"some are timed as {', others as '.join(sorted(libraries))}: what a library takes "
                "counts in some alone (strategy.aggregation.library=ideal compares schedules)"
            )
        return said + [str(each) for each in self.left_out]

    def to_json(self) -> dict[str, Any]:
        """The JSON object of ``dpsim compare``."""
        rows = [{**row.to_json(), "is_best_too": self.is_best_too(row)} for row in self.rows]
        return {
            "schema_version": 1,
            "kind": "compare",
            "by": self.ranking.name,
            "rows": rows,
            "left_out": [each.to_json() for each in self.left_out],
            "notes": self.notes,
        }


def compare(
    path: str | os.PathLike[str],
    vary: Iterable[str] = (),
    *,
    alternatives: Iterable[str] = (),
    others: Iterable[str | os.PathLike[str]] = (),
    by: str = "sample-time",
    overrides: Iterable[str] = (),
    progress: Callable[[int], None] = lambda done: None,
) -> Comparison:
    """Simulate variants of the scenario at ``path`` and rank them.

    ``vary``: ``key=a,b`` texts, all of whose combinations are variants. ``alternatives``:
    ``key=a,key=b`` texts, each of which is a variant of its own beside the file as it is (and
    beside every combination, where there are such). ``others``: more scenario files, of which the
    same variants are ranked among those of the first. ``by``: one of `RANKINGS`. ``overrides``:
    ``key=value`` of all variants. ``progress`` gets the number of variants done. Variants that
    cannot be simulated are left out.

    Raises DpsimError for a bad text and where all are left out, ScenarioError for a variant that is
    no scenario.
    """
    ranking = RANKINGS[by]
    chosen = variants(vary, alternatives)
    files = [path, *others]
    scenarios = [
        ({"file": os.fspath(file), **variant} if len(files) > 1 else variant, scenario)
        for file in files
        for variant, scenario in _loaded(file, chosen, overrides)
    ]
    rows, left_out = _simulated(scenarios, progress)
    if all(ranking.read(row.result) is None for row in rows):
        raise DpsimError(f"--by {by}: must be known for at least one variant, but is for none")
    if ranking.of_money:
        _check_currency(by, (row.result for row in rows))
    rows.sort(key=lambda row: _place(ranking, row))
    return Comparison(tuple(rows), ranking, tuple(left_out))


def _check_currency(by: str, results: Iterable[Result]) -> None:
    """Raises DpsimError for prices in several currencies."""
    currencies = {result.spending.currency for result in results}
    if len(currencies) > 1:
        raise DpsimError(
            f"--by {by}: must have prices in one currency, but got "
            f"{' and '.join(sorted(currencies))}"
        )


def _place(ranking: Ranking, row: Compared) -> tuple[bool, float]:
    figure = ranking.read(row.result)
    # What nothing is known of comes last, in the order given: sorting is stable.
    return figure is None, figure or 0.0


def _loaded(
    path: str | os.PathLike[str], chosen: Iterable[Variant], overrides: Iterable[str]
) -> list[tuple[Variant, Scenario]]:
    """The scenario at ``path`` once per variant.

    Raises ScenarioError for a variant that is not a scenario: a mistake in the last is to show
    before minutes are spent on those before it.
    """
    fixed = list(overrides)
    scenarios = []
    for variant in chosen:
        own = [f"{key}={value}" for key, value in variant.items()]
        scenarios.append((variant, load_scenario(path, [*fixed, *own])))
    return scenarios


def _simulated(
    scenarios: list[tuple[Variant, Scenario]], progress: Callable[[int], None]
) -> tuple[list[Compared], list[LeftOut]]:
    """Simulate each, of which some may be left out; ``progress`` gets the number done.

    Raises DpsimError where none can be simulated.
    """
    found: list[Compared] = []
    errors: list[tuple[Variant, DpsimError]] = []
    for done, (variant, scenario) in enumerate(scenarios, 1):
        result = try_simulate(scenario)
        if isinstance(result, DpsimError):
            errors.append((variant, result))
        else:
            found.append(Compared(variant, result))
        progress(done)
    if errors and not found:
        raise errors[0][1]
    return found, [LeftOut(variant, without_ways_out(error)) for variant, error in errors]


@dataclass(frozen=True, slots=True, eq=False)
class Scaling(Shown):
    """A scenario on several numbers of nodes, in the order asked for."""

    nodes: tuple[int, ...]
    results: tuple[Result, ...]
    left_out: tuple[LeftOut, ...] = ()

    def __repr__(self) -> str:
        best = max(self.results, key=lambda result: result.throughput_samples_per_s)
        return (
            f"<Scaling on {', '.join(map(str, self.nodes))} nodes: at most "
            f"{best.throughput_samples_per_s:,.4g} samples/s>"
        )

    @property
    def saturates_at_nodes(self) -> int | None:
        """The number of nodes of the highest throughput, None where that is the last one."""
        reached = (result.throughput_samples_per_s for result in self.results)
        return saturation(list(zip(self.nodes, reached, strict=True)))

    def to_json(self) -> dict[str, Any]:
        """The JSON object of ``dpsim scale``."""
        rows = [
            {"nodes": count, **result.to_json()}
            for count, result in zip(self.nodes, self.results, strict=True)
        ]
        return {
            "schema_version": 1,
            "kind": "scale",
            "saturates_at_nodes": self.saturates_at_nodes,
            "rows": rows,
            "left_out": [each.to_json() for each in self.left_out],
        }


def scale(
    path: str | os.PathLike[str],
    nodes: Iterable[int],
    *,
    overrides: Iterable[str] = (),
    progress: Callable[[int], None] = lambda done: None,
) -> Scaling:
    """Simulate the scenario at ``path`` on each number of nodes.

    ``overrides``: ``key=value`` of all. ``progress`` gets how many are done. Raises ScenarioError
    where one of them is no scenario, DpsimError where none can be simulated.
    """
    chosen = [{"cluster.nodes": str(count)} for count in nodes]
    rows, left_out = _simulated(_loaded(path, chosen, overrides), progress)
    # Not those asked for: some may have been left out.
    counts = tuple(int(row.values["cluster.nodes"]) for row in rows)
    return Scaling(counts, tuple(row.result for row in rows), tuple(left_out))


def saturation(curve: list[tuple[int, float]]) -> int | None:
    """The number of nodes of the highest throughput, None where that is the last one.

    ``curve`` is of (nodes, samples/s).
    """
    # Of equal throughputs max takes the first, so a curve that stays flat saturates where it begins
    # to.
    nodes, _ = max(curve, key=lambda point: point[1])
    return None if nodes == max(point[0] for point in curve) else nodes
