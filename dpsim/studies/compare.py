"""Compare variants of a scenario, scenarios, or numbers of nodes, ranked by one figure."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dpsim.base.budget import Budget
from dpsim.base.errors import DpsimError, FailedError, without_remedies
from dpsim.base.lazy import Shown
from dpsim.base.uncertainty import CONFIDENCE
from dpsim.engine import Result, try_simulate
from dpsim.scenario import Document, Override, Scenario, apply_overrides, load_yaml, validate
from dpsim.studies.cautions import cautions, unequal_batches
from dpsim.studies.kept_scale import is_of_calibration, kept_scale
from dpsim.studies.ranking import RANKINGS, Ranking
from dpsim.studies.variants import Variant, parse_vary, variants

_ALTERNATIVE = "--alternative"


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """A simulated variant; ``values`` are its overrides by path, none for the unchanged file.

    If several files are compared, the first value is ``file``.
    """

    values: Variant
    result: Result
    scenario: Scenario

    @property
    def name(self) -> str:
        """The variant in words."""
        return _words(self.values)

    def to_json(self) -> dict[str, Any]:
        """Return a row of ``dpsim compare --json``."""
        return {"variant": self.values, **self.result.to_json()}


def _words(values: Variant) -> str:
    words = (value if path == "file" else f"{path}={value}" for path, value in values.items())
    return ", ".join(words) or "the file as it is"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A variant that cannot be simulated, and the reason, such as too little memory."""

    values: Variant
    reason: str

    def __str__(self) -> str:
        return f"left out: {_words(self.values)}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """Return an entry of ``left_out`` in ``dpsim compare --json``."""
        return {"variant": self.values, "reason": self.reason}


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Shown):
    """Simulated variants, best first by ``ranking``, those with an unknown figure last.

    ``partial``: this machine's time or memory did not suffice for some.
    """

    rows: tuple[Compared, ...]
    ranking: Ranking
    left_out: tuple[LeftOut, ...] = ()
    partial: bool = False

    def __repr__(self) -> str:
        best = _words(self.best.values)
        return f"<Comparison of {len(self.rows)} by {self.ranking.title}: {best}>"

    @property
    def best(self) -> Compared:
        """The best variant."""
        return self.rows[0]

    def change(self, row: Compared) -> float | None:
        """Return a variant's figure relative to the best's, minus 1; None if it is unknown."""
        best, own = self.ranking.read(self.best.result), self.ranking.read(row.result)
        # A best of 0, such as no bytes sent, allows no ratio.
        return None if not best or own is None else own / best - 1

    def is_best_too(self, row: Compared) -> bool | None:
        """Return whether a variant may be as good as the best within the models' errors.

        None if the ranking's figure has no such error.
        """
        best, own = self.ranking.read(self.best.result), self.ranking.read(row.result)
        # Intervals are of ratios, so no figure may be 0.
        if not self.ranking.of_time or not best or not own:
            return None
        return self.best.result.indistinguishable_from(row.result, best, own)

    @property
    def notes(self) -> list[str]:
        """Notes on the order and cautions about the rows, a sentence each."""
        indistinguishable = [row for row in self.rows[1:] if self.is_best_too(row)]
        notes = []
        if indistinguishable:
            notes.append(
                f"~ cannot be told from the best within the models' errors ({CONFIDENCE:.0%}); "
                "errors that both share (the same GPU, the same network) cancel in differences"
            )
        libraries = {each.library for row in self.rows for each in row.result.libraries}
        if len(libraries) > 1:
            notes.append(
                f"some are timed as {', others as '.join(sorted(libraries))}, so only some include "
                "a library's overhead (strategy.aggregation.library=ideal compares schedules)"
            )
        if self.ranking.of_samples:
            notes += unequal_batches({row.name: row.scenario.global_batch for row in self.rows})
        notes += cautions((row.name, row.result) for row in self.rows)
        return notes + [str(each) for each in self.left_out]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of ``dpsim compare``."""
        rows = [{**row.to_json(), "is_best_too": self.is_best_too(row)} for row in self.rows]
        return {
            "schema_version": 1,
            "kind": "compare",
            "by": self.ranking.name,
            "rows": rows,
            "left_out": [each.to_json() for each in self.left_out],
            "partial": self.partial,
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
    say: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Simulate variants of the scenario at ``path`` and rank them.

    ``vary``: ``key=a,b`` texts, every combination of whose values is a variant. ``alternatives``:
    ``key=a,key=b`` texts, each an additional variant of the file and of every combination.
    ``others``: more scenario files, whose variants are ranked together with those of the first.
    ``by``: one of `RANKINGS`. ``overrides``: ``key=value`` of all variants. ``progress`` gets the
    number of variants done. Compute times that are scaled to a measured step keep the unchanged
    file's scale. If a study takes more than a few seconds, ``say`` gets a forecast and each result.
    Variants that cannot be simulated, or for which no time is left, are left out.

    Raises DpsimError for a bad text and if every variant is left out, ScenarioError for a variant
    that is not a valid scenario.
    """
    ranking, budget = RANKINGS[by], Budget()
    axes, fixed, files = list(vary), list(overrides), [path, *others]
    chosen, varied = variants(axes, alternatives), dict(map(parse_vary, axes))

    def options_of(variant: Variant) -> list[Override]:
        """Return the values of a variant, each with its command-line option."""
        return [
            Override.parse(
                f"{key}={value}", "--vary" if value in varied.get(key, ()) else _ALTERNATIVE
            )
            for key, value in variant.items()
        ]

    with budget.part():
        scenarios = [
            ({"file": os.fspath(file), **variant} if len(files) > 1 else variant, scenario)
            for file in files
            for variant, scenario in _scaled_to_measured_step(
                _base_document(file, fixed), chosen, options_of
            )
        ]
    rows, left_out, partial = _simulate(scenarios, budget, progress, say)
    if all(ranking.read(row.result) is None for row in rows):
        raise DpsimError(f"--by {by}: must be known for at least one variant, but is for none")
    if ranking.of_money:
        _check_currency(by, (row.result for row in rows))
    rows.sort(key=lambda row: _sort_key(ranking, row))
    return Comparison(tuple(rows), ranking, tuple(left_out), partial)


def _check_currency(by: str, results: Iterable[Result]) -> None:
    """Raise DpsimError for prices in several currencies."""
    currencies = {result.spending.currency for result in results}
    if len(currencies) > 1:
        raise DpsimError(
            f"--by {by}: must have prices in one currency, but got "
            f"{' and '.join(sorted(currencies))}"
        )


def _sort_key(ranking: Ranking, row: Compared) -> tuple[bool, float]:
    figure = ranking.read(row.result)
    # Unknown figures come last; sorting keeps their order.
    return figure is None, figure or 0.0


def _base_document(path: str | os.PathLike[str], overrides: Iterable[str]) -> Document:
    return apply_overrides(load_yaml(path), overrides, Scenario)


def _with(document: Document, values: Iterable[Override]) -> Scenario:
    return validate(apply_overrides(document, values, Scenario), Scenario)


def _scaled_to_measured_step(
    document: Document, chosen: Iterable[Variant], options_of: Callable[[Variant], list[Override]]
) -> list[tuple[Variant, Scenario]]:
    """Return the variants of a file, with compute times scaled to its measured step.

    Variants that change the calibration keep their own scale. Raises ScenarioError for an invalid
    variant, before minutes are spent on others.
    """
    scenarios = [(variant, _with(document, options_of(variant))) for variant in chosen]
    of_step = [
        scenario.fitted_to is not None and variant and not any(map(is_of_calibration, variant))
        for variant, scenario in scenarios
    ]
    if not any(of_step):
        return scenarios
    kept = kept_scale(document)
    return [
        (variant, _with(kept, options_of(variant)) if scaled else scenario)
        for scaled, (variant, scenario) in zip(of_step, scenarios, strict=True)
    ]


def _simulate(
    scenarios: list[tuple[Variant, Scenario]],
    budget: Budget,
    progress: Callable[[int], None],
    say: Callable[[str], None],
    *,
    quick: bool = False,
) -> tuple[list[Compared], list[LeftOut], bool]:
    """Simulate each variant; return results, failures, and whether time or memory ran out.

    ``progress`` gets the number done, ``say`` each result of a long study. ``quick`` is that of
    `run_scenario`. Raises DpsimError if none can be simulated.
    """
    compared: list[Compared] = []
    errors: list[tuple[Variant, DpsimError]] = []
    for done, (variant, scenario) in enumerate(scenarios, 1):
        result = try_simulate(scenario, budget, quick=quick)
        if isinstance(result, DpsimError):
            errors.append((variant, result))
        else:
            compared.append(Compared(variant, result, scenario))
            pace = f"{result.throughput_samples_per_s:,.4g} samples/s"
            budget.stream(say, done, len(scenarios), f"{_words(variant)}: {pace}")
        progress(done)
    if errors and not compared:
        raise errors[0][1]
    left_out = [LeftOut(variant, without_remedies(error)) for variant, error in errors]
    return compared, left_out, any(isinstance(error, FailedError) for _, error in errors)


@dataclass(frozen=True, slots=True, eq=False)
class Scaling(Shown):
    """A scenario on several numbers of nodes, in the requested order.

    ``partial``: this machine's time or memory did not suffice for some.
    """

    nodes: tuple[int, ...]
    results: tuple[Result, ...]
    left_out: tuple[LeftOut, ...] = ()
    partial: bool = False

    def __repr__(self) -> str:
        best = max(self.results, key=lambda result: result.throughput_samples_per_s)
        return (
            f"<Scaling on {', '.join(map(str, self.nodes))} nodes: at most "
            f"{best.throughput_samples_per_s:,.4g} samples/s>"
        )

    @property
    def saturates_at_nodes(self) -> int | None:
        """The number of nodes of the highest throughput, None if that is the largest number."""
        reached = (result.throughput_samples_per_s for result in self.results)
        return saturation(list(zip(self.nodes, reached, strict=True)))

    @property
    def notes(self) -> list[str]:
        """Cautions about the rows, and the reason of each left-out row, a sentence each."""
        names = (f"{count} nodes" for count in self.nodes)
        notes = cautions(zip(names, self.results, strict=True))
        return notes + [str(each) for each in self.left_out]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of ``dpsim scale``."""
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
            "partial": self.partial,
            "notes": self.notes,
        }


def scale(
    path: str | os.PathLike[str],
    nodes: Iterable[int],
    *,
    overrides: Iterable[str] = (),
    progress: Callable[[int], None] = lambda done: None,
    say: Callable[[str], None] = lambda text: None,
) -> Scaling:
    """Simulate the scenario at ``path`` on each number of nodes.

    The vector engine is used where it is exact, even if the file asks for events. ``overrides``:
    ``key=value`` for all. ``progress`` gets the number done. If the study takes more than a few
    seconds, ``say`` gets a forecast and each result. Numbers for which no time is left are left
    out.

    Raises ScenarioError for an invalid scenario, DpsimError if none can be simulated.
    """
    budget = Budget()
    with budget.part():
        document = _base_document(path, overrides)
        scenarios = [
            (
                {"cluster.nodes": str(count)},
                _with(document, [Override.parse(f"cluster.nodes={count}")]),
            )
            for count in nodes
        ]
    rows, left_out, partial = _simulate(scenarios, budget, progress, say, quick=True)
    counts = tuple(int(row.values["cluster.nodes"]) for row in rows)  # some may be left out
    return Scaling(counts, tuple(row.result for row in rows), tuple(left_out), partial)


def saturation(curve: list[tuple[int, float]]) -> int | None:
    """Return the number of nodes of the highest throughput, None if that is the largest number.

    ``curve`` has pairs of (nodes, samples/s).
    """
    # max returns the first of equal throughputs: a flat curve saturates at its start.
    nodes, _ = max(curve, key=lambda point: point[1])
    return None if nodes == max(point[0] for point in curve) else nodes
