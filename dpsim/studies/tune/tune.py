"""Find the best configuration of a scenario file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from functools import partial

from dpsim.base.budget import Budget, check, over_time, time_limit
from dpsim.base.errors import DpsimError, ScenarioError
from dpsim.engine import PARTS, PartName, Result
from dpsim.scenario import (
    Document,
    Override,
    Scenario,
    apply_overrides,
    validate,
)
from dpsim.studies.front import pareto_front
from dpsim.studies.tune.dimension import Dimension
from dpsim.studies.tune.evaluator import NO_TIME, Evaluation, Evaluator, Refused
from dpsim.studies.tune.limits import Limits
from dpsim.studies.tune.objective import OBJECTIVES
from dpsim.studies.tune.own_values import (
    check_target,
    own_values,
    switch_values,
    without_refused_values,
    without_sweep,
)
from dpsim.studies.tune.search import Numbers, evaluate_all, report_each_best, sample
from dpsim.studies.tune.space import Allowed, Choice, Space, space
from dpsim.studies.tune.tuning import Reason, Tuning

_FINALISTS = 3  # the best of a search, compared again with all steps
_MOST_OF_FRONT = 12
_SAME_UPDATES_SHARE = 1 / 3  # of the evaluations: fewer configurations keep the updates
_SHOWN_REASONS = 5
_MOST_CHECKED = 2000  # choices checked for feasibility before a space counts as large
# Shares of the time limit after which the search, the finalists' simulations, and that of the
# file's own configuration end.
_SEARCH_SHARE, _FINAL_SHARE, _BASE_SHARE = 0.6, 0.8, 0.9
_LAST_SEED = 2**32 - 1  # the largest seed of Optuna's samplers


def tune(
    path: str | os.PathLike[str],
    *,
    over: Iterable[str] = (),
    objective: str = "step-time",
    evaluations: int = 80,
    limits: Limits | None = None,
    seed: int = 0,
    overrides: Iterable[str] = (),
    results: MutableMapping[str, Result] | None = None,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    say: Callable[[str], None] = lambda text: None,
) -> Tuning:
    """Search for the best configuration of the scenario at ``path``, by one of `OBJECTIVES`.

    Only configurations within ``limits`` count.

    ``over``: the fields and values to search, ``key=a,b,c`` each; by default `default_values`. All
    configurations are tried where there are at most ``evaluations``; otherwise so many are
    simulated that a seeded sampler suggests. Searched with few steps; the best few and the front
    are simulated again with all. ``overrides``: ``key=value`` for the file. ``results``: known
    results by `dpsim.studies.sweep.point.scenario_key`, to which those found here are added.
    ``progress`` gets the activity, and the number done and in total. If the search takes more than
    a few seconds, ``say`` gets a forecast and each best configuration so far. When its share of the
    time limit is used, the best of those that were tried is returned. The vector engine simulates
    wherever it is exact, even if the file asks for events.

    Raises DpsimError for fields that cannot be searched, and if no configuration is possible;
    FailedError if Optuna is needed but not installed.
    """
    if evaluations < 1:
        raise DpsimError(f"--evaluations: must be at least 1, but got {evaluations}")
    if seed < 0:
        raise DpsimError(f"--seed: must be at least 0, but got {seed}")
    if seed > _LAST_SEED:
        raise DpsimError(f"--seed: must be at most {_LAST_SEED}, but got {seed}")
    aim, within = OBJECTIVES[objective], limits or Limits()
    known_results, budget = {} if results is None else results, Budget()
    with budget.part():
        document = without_sweep(path, overrides)
        scenario = validate(document, Scenario)
        check_target(scenario, aim)
        searched = without_refused_values(space(scenario, over, aim, within), document)
    evaluator = Evaluator(document, searched, aim, within, known_results, budget)

    def search() -> bool:
        """Search, and return whether all choices were tried."""
        possible = _few(evaluator, evaluations)
        tried = report_each_best(evaluator, budget, possible or evaluations, progress, say)
        if possible is None:
            _search(evaluator, document, evaluations, seed, tried)
        else:
            evaluate_all(evaluator, lambda done: tried("trying all", done, searched.size))
        return possible is not None

    whole = evaluator.within(_SEARCH_SHARE, search) is True and not evaluator.partial
    return _tuning(document, evaluator, seed, whole, progress)


def _few(evaluator: Evaluator, most: int, allowed: Allowed | None = None) -> int | None:
    """Return how many choices, of ``allowed`` values, are possible; None if above ``most``.

    Only those are simulated. For a large model, a thousand choices may contain only some dozens.
    """
    possible = 0
    # Stop early, because there may be millions of choices.
    for looked_at, choice in enumerate(evaluator.space.choices(allowed)):
        if looked_at == max(most, _MOST_CHECKED):
            return None
        check()
        possible += evaluator.is_feasible(choice)
        if possible > most:
            return None
    return possible


def _search(
    evaluator: Evaluator,
    document: Document,
    evaluations: int,
    seed: int,
    progress: Callable[[str, int, int], None],
) -> None:
    """Search choices that keep the updates first, then all, starting from the best found."""
    searched = evaluator.space
    start = own_values(searched, document)
    same = _same_updates(searched, document)
    begin = [start] if start else []
    if same != {path: [*numbers] for path, numbers in searched.all.items()}:
        first = max(1, round(_SAME_UPDATES_SHARE * evaluations))

        def done(count: int) -> None:
            progress("the same updates", count, first)

        if _few(evaluator, first, same) is not None:
            evaluate_all(evaluator, done, same)
        else:
            # Start only from values in ``same``; others would bring back excluded values.
            fitting = [each for each in begin if all(n in same[path] for path, n in each.items())]
            sample(evaluator, first, seed, fitting, done, same)
        begin += _changed_once(evaluator, same)
    sample(
        evaluator,
        evaluations,
        seed,
        begin,
        lambda count: progress("searching", count, evaluations),
    )


def _same_updates(searched: Space, document: Document) -> dict[str, list[int]]:
    """Return the numbers of the values that keep the updates of synchronous training, by path.

    For each field, these are the values with the fewest parts of the strategy that change updates.
    """

    def changes(each: Dimension, value: Override) -> int:
        values = [*switch_values(each, searched), value]
        try:
            changed = validate(apply_overrides(document, values, Scenario), Scenario)
            return len(changed.strategy.inexact)
        except ScenarioError:
            return 0  # reported when it is tried

    kept = {}
    for each in searched.dimensions:
        counts = [changes(each, value) for value in each.values]
        # Other fields of the file may change the updates too, equally for all values here: only the
        # minimum of this field matters.
        least = min(counts)
        kept[each.path] = [number for number, count in enumerate(counts) if count == least]
    return kept


def _changed_once(evaluator: Evaluator, same: Mapping[str, list[int]]) -> list[Numbers]:
    """Return the best choice so far, and that with each value that ``same`` lacks in turn.

    Fields that do not apply get their first value.
    """
    evaluations = evaluator.evaluations
    if not evaluations:
        return []
    best = min(evaluations, key=lambda each: evaluator.objective.score(each.figure))
    dimensions = evaluator.space.dimensions
    # The search needs a number for every field, even if the field does not apply.
    numbers = {**{each.path: 0 for each in dimensions}, **dict(best.choice)}
    return [
        numbers,
        *(
            {**numbers, each.path: number}
            for each in dimensions
            for number in range(len(each.values))
            if number not in same[each.path]
        ),
    ]


def _tuning(
    document: Document,
    evaluator: Evaluator,
    seed: int,
    whole: bool,
    progress: Callable[[str, int, int], None],
) -> Tuning:
    """Simulate the best of the search, and the front, with all steps, and return the answer.

    If there is no time for that, the results of the search are used.
    """
    # A ranking by few steps is almost that by all steps, so the overall best is among the first.
    ranked = sorted(evaluator.evaluations, key=lambda each: evaluator.objective.score(each.figure))
    if not ranked:
        raise (
            over_time(time_limit())
            if evaluator.partial
            else DpsimError(_nothing(evaluator.refused))
        )
    again = _finalists(ranked)
    full: dict[Choice, Evaluation] = {}
    for done, each in enumerate(again, 1):
        evaluation = evaluator.within(_FINAL_SHARE, partial(evaluator.in_full, each))
        full |= {each.choice: evaluation} if isinstance(evaluation, Evaluation) else {}
        progress("with all steps", done, len(again))
    if not full and evaluator.partial:
        full = {each.choice: each for each in again}
    if not full:
        raise DpsimError(
            "no configuration keeps to the budget with all steps of the file, but some do with "
            "few: raise --budget or --within"
        )
    best = sorted(full.values(), key=lambda each: evaluator.objective.score(each.figure))
    rest = ranked if evaluator.partial else []
    exact = next((each for each in (*best, *rest) if not each.changes_updates), None)
    baseline = evaluator.within(_BASE_SHARE, evaluator.base) or Refused({}, NO_TIME)
    why = _why(best[0], evaluator, progress)
    why_exact = () if exact is None else _why(exact, evaluator, progress)
    return Tuning(
        document=document,
        objective=evaluator.objective,
        space=evaluator.space,
        seed=seed,
        exhaustive=whole,
        simulated=evaluator.count,
        partial=evaluator.partial,
        baseline=baseline,
        breaks=evaluator.base_breaks(),
        best=best[0],
        exact=exact,
        why=why,
        why_exact=why_exact,
        front=tuple(_front(full.values())),
        evaluations=tuple(evaluator.evaluations),
        refused=tuple(evaluator.refused),
    )


def _why(
    winner: Evaluation, evaluator: Evaluator, progress: Callable[[str, int, int], None]
) -> tuple[Reason, ...]:
    """Return the effect of each value of the best, by its loss without it; largest first."""
    # Compare with the winner's few steps, so that only the value differs.
    searched = evaluator(winner.choice)  # known
    if not isinstance(searched, Evaluation):
        return ()
    reasons = []
    for done, (path, value) in enumerate(winner.values.items(), 1):
        other = evaluator.within(1.0, partial(evaluator.without, searched, path))
        if other is not None and other.choice != searched.choice:
            loss = evaluator.objective.gain(searched.figure, other.figure)
            reasons.append(Reason(path, value, loss, _part_that_grows(searched, other)))
        progress("why", done, len(winner.values))
    # If higher is better, the loss is a decrease; the score adjusts the sign.
    return tuple(sorted(reasons, key=lambda each: -evaluator.objective.score(each.loss)))


def _part_that_grows(best: Evaluation, other: Evaluation) -> PartName:
    """Return the part of a step that grows most with the other configuration."""
    before, after = best.result.parts_s, other.result.parts_s
    return max(PARTS, key=lambda part: after[part] - before[part])


def _finalists(ranked: list[Evaluation]) -> list[Evaluation]:
    """Return the best few, the best few with known accuracy, and the front; each once.

    A long front is thinned out evenly.
    """
    exact = [each for each in ranked if not each.changes_updates]
    front = _front(ranked)
    thinned = front if len(front) <= _MOST_OF_FRONT else front[:: -(-len(front) // _MOST_OF_FRONT)]
    return list(
        {
            each.choice: each for each in (*ranked[:_FINALISTS], *exact[:_FINALISTS], *thinned)
        }.values()
    )


def _front(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    return pareto_front(evaluations, lambda each: each.time_s, lambda each: each.cost)


def _nothing(refused: list[Refused]) -> str:
    """Return the message if no configuration is possible."""
    reasons = Counter(each.why for each in refused).most_common(_SHOWN_REASONS)
    return "no configuration can be: " + "; ".join(f"{count:,} x {why}" for why, count in reasons)
