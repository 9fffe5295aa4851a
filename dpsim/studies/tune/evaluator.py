"""Evaluate configurations one at a time: whether each is possible, and its figures."""

from __future__ import annotations

import re
from collections.abc import Callable, MutableMapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from dpsim.base.budget import TIME_LIMIT, Budget, OverTimeError, time_left
from dpsim.base.errors import DpsimError
from dpsim.disturbance import DisturbanceConfig
from dpsim.engine import KeptJobs, Result, exchange_cycle, prepared_by, run_scenario
from dpsim.scenario import Document, Plain, Scenario, apply_overrides, validate
from dpsim.studies.explain import as_options
from dpsim.studies.sweep import scenario_key
from dpsim.studies.tune.limits import Limits
from dpsim.studies.tune.objective import Objective
from dpsim.studies.tune.space import Choice, Space

T = TypeVar("T")

NO_TIME = f"would take more time than was left of the limit ({TIME_LIMIT})"
# Steps that suffice to compare configurations, if steps are alike and if they vary.
_EQUAL_STEPS = 4
_VARYING_STEPS = 10


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """A possible configuration: the ``values`` set in the file by path, and its results.

    ``figure`` is the objective's value; ``time_s`` and ``cost`` are its place in the Pareto front's
    plane.
    """

    choice: Choice
    values: dict[str, Plain]
    scenario: Scenario
    result: Result
    figure: float
    time_s: float
    cost: float

    @property
    def changes_updates(self) -> list[str]:
        """Which parts of the strategy change the updates of synchronous training, in words.

        Where none does, accuracy is the same. For the others there is no figure, since the loss in
        published runs depends on their task, model and tuning, so it is never assumed to be small;
        ``dpsim converge`` trains a small model in the same way and shows its loss.
        """
        return self.scenario.strategy.inexact

    def to_json(self) -> dict[str, Any]:
        """Return a row of ``dpsim tune --json``."""
        return {
            "values": self.values,
            "set": as_options(self.values),
            "figure": self.figure,
            "step_time_s": self.result.step_time_s["mean"],
            "interval_s": None if self.result.interval is None else self.result.interval.to_json(),
            "throughput_samples_per_s": self.result.throughput_samples_per_s,
            **asdict(self.result.utilisation),
            "workers": self.result.workers,
            "global_batch": self.scenario.global_batch,
            "memory_bytes": None if self.result.memory is None else self.result.memory.held.total,
            "time_s": self.time_s,
            "cost": self.cost,
            "total": None if self.result.total is None else asdict(self.result.total),
            "accuracy_penalty": None if self.changes_updates else 0.0,
            "changes_updates": self.changes_updates,
            "steps": self.scenario.run.steps,
        }


@dataclass(frozen=True, slots=True)
class Refused:
    """An impossible configuration, and the reason."""

    values: dict[str, Plain]
    why: str


class Evaluator:
    """Evaluates choices of ``space``.

    ``results`` has known results by scenario's key; simulated ones are added to it. ``budget`` is
    the time of the study: ``partial`` is true once that was short. ``best`` is the best of the
    search so far.
    """

    def __init__(
        self,
        document: Document,
        space: Space,
        objective: Objective,
        limits: Limits,
        results: MutableMapping[str, Result],
        budget: Budget,
    ) -> None:
        self.space = space
        self.objective = objective
        self.best: Evaluation | None = None
        self.partial = False
        self._document = document
        self._limits = limits
        self._results = results
        self._budget = budget
        self._jobs = KeptJobs()
        self._found: dict[Choice, Evaluation | Refused] = {}
        self._simulated: set[str] = set()

    @property
    def count(self) -> int:
        """The number of different scenarios simulated by the search."""
        return len(self._simulated)

    @property
    def evaluations(self) -> list[Evaluation]:
        """The possible configurations, in the order of evaluation."""
        return [each for each in self._found.values() if isinstance(each, Evaluation)]

    @property
    def refused(self) -> list[Refused]:
        """The impossible configurations."""
        return [each for each in self._found.values() if isinstance(each, Refused)]

    def within(self, share: float, work: Callable[[], T]) -> T | None:
        """Return ``work()``, or None if it takes longer than the rest of a share of the time."""
        try:
            with self._budget.part(share):
                return work()
        except OverTimeError:
            self.partial = True
            return None

    def knows(self, choice: Choice) -> bool:
        """Return whether a choice has been evaluated."""
        return choice in self._found

    def is_feasible(self, choice: Choice) -> bool:
        """Return whether a choice is possible as far as is known before simulating it."""
        try:
            return self._limits.broken(self._scenario(choice)) is None
        except DpsimError:
            return False

    def __call__(self, choice: Choice) -> Evaluation | Refused:
        """Evaluate a choice with the few steps of a search."""
        if choice not in self._found:
            outcome = self._found[choice] = self._evaluate(choice)
            score, best = self.objective.score, self.best
            if isinstance(outcome, Evaluation) and (
                best is None or score(outcome.figure) < score(best.figure)
            ):
                self.best = outcome
        return self._found[choice]

    def in_full(self, evaluation: Evaluation) -> Evaluation | Refused:
        """Evaluate the same configuration with all steps of its file."""
        return self._measure(evaluation.choice, self._scenario(evaluation.choice))

    def without(self, evaluation: Evaluation, path: str) -> Evaluation | None:
        """Evaluate without the change of one field, with few steps; None if that is impossible.

        Fields that do not apply then are left out too.
        """
        rest = tuple(pair for pair in evaluation.choice if pair[0] != path)
        chosen = self.space.plain(rest)
        applying = {each.path for each in self.space.dimensions if each.applies(chosen)}
        rest = tuple(pair for pair in rest if pair[0] in applying)
        try:
            scenario = self._scenario(rest)
        except DpsimError:
            return None
        outcome = self._measure(rest, shorter(scenario))
        return outcome if isinstance(outcome, Evaluation) else None

    def base(self) -> Evaluation | Refused:
        """Evaluate the unchanged file with all its steps, ignoring the limits."""
        scenario = validate(self._document, Scenario)
        try:
            return self._of((), scenario, self._result(scenario))
        except _NotPossibleError as refused:
            return Refused({}, str(refused))

    def base_breaks(self) -> str | None:
        """Return the limit that the unchanged file breaks; None also if it is impossible."""
        try:
            return self._limits.broken(validate(self._document, Scenario))
        except DpsimError:  # reported by `base`
            return None

    def _evaluate(self, choice: Choice) -> Evaluation | Refused:
        try:
            scenario = self._scenario(choice)
            broken = self._limits.broken(scenario)
        except DpsimError as error:
            return Refused(self.space.plain(choice), rule_of(str(error)))
        if broken is not None:
            return Refused(self.space.plain(choice), broken)
        # Few steps suffice to rank; printed results are simulated in full later.
        few = shorter(scenario)
        outcome = self._measure(choice, few)
        self._simulated.add(scenario_key(few))
        return outcome

    def _scenario(self, choice: Choice) -> Scenario:
        changed = apply_overrides(self._document, self.space.overrides(choice), Scenario)
        return validate(changed, Scenario)

    def _measure(self, choice: Choice, scenario: Scenario) -> Evaluation | Refused:
        try:
            outcome = self._of(choice, scenario, self._result(scenario))
        except _NotPossibleError as refused:
            return Refused(self.space.plain(choice), str(refused))
        unit = self.objective.currency(outcome.result)
        broken = self._limits.over_budget(outcome.cost, unit, outcome.time_s)
        return outcome if broken is None else Refused(outcome.values, broken)

    def _result(self, scenario: Scenario) -> Result:
        """Return the result, simulated unless it is known.

        The vector engine simulates it wherever it is exact. Raises _NotPossibleError, and
        OverTimeError if no time is left.
        """
        # The key is the scenario's, because different choices may result in the same scenario.
        key = scenario_key(scenario)
        if key not in self._results:
            try:
                with prepared_by(self._jobs.prepare):
                    self._results[key] = run_scenario(scenario, quick=True).result
            except OverTimeError:
                self.partial = True
                if not time_left():
                    raise
                raise _NotPossibleError(NO_TIME) from None
            except DpsimError as error:
                raise _NotPossibleError(
                    f"cannot be simulated: {str(error).splitlines()[0]}"
                ) from None
        return self._results[key]

    def _of(self, choice: Choice, scenario: Scenario, result: Result) -> Evaluation:
        figure = self.objective.read(result)
        seconds = self.objective.time_s(result)
        cost = self.objective.cost(result)
        if figure is None or seconds is None or cost is None:
            target, kind = result.to_target, scenario.strategy.sync.kind
            why = f"steps to the target are not known with sync {kind}"
            raise _NotPossibleError(why if target is None else target.notes[0])
        return Evaluation(choice, self.space.plain(choice), scenario, result, figure, seconds, cost)


class _NotPossibleError(Exception):
    """The reason why a configuration has no figure."""


def shorter(scenario: Scenario) -> Scenario:
    """Return ``scenario`` with as few steps as needed to compare it with others.

    These steps are whole periods of its averaging, but never more than it has. A scenario whose
    steps include the switch from BSP to local steps is returned unchanged.
    """
    run, period, switch = scenario.run, _period(scenario), scenario.strategy.sync.first_own_step
    if run.warmup < switch:
        return scenario
    is_alike = scenario.disturbance == DisturbanceConfig() and scenario.measured_jitter is None
    enough = _EQUAL_STEPS if is_alike else _VARYING_STEPS
    # Take whole periods, because part of one has too many or too few steps that communicate.
    whole_periods = period * -(-enough // period)
    # In as many first steps as a worker may be ahead, workers wait for no other. Periods count from
    # the switch on.
    warmup = min(run.warmup, max(scenario.strategy.sync.lag + 1, switch))
    few = run.model_copy(update={"steps": min(run.steps, whole_periods), "warmup": warmup})
    return scenario.model_copy(update={"run": few})


def _period(scenario: Scenario) -> int:
    """Return the number of steps between two averagings of models, or outer steps.

    1 for an invalid setting, which is reported when it is simulated.
    """
    try:
        return exchange_cycle(scenario)
    except DpsimError:
        return 1


def rule_of(text: str) -> str:
    """Return the rule that a scenario's first problem breaks, with its path.

    The place in the file is left out.
    """
    line = text.splitlines()[0]
    fields = {field.alias or name for name, field in Scenario.model_fields.items()}
    parts = line.split(": ")
    paths = (re.fullmatch(r"(\w+)[\w.\[\]-]*", part) for part in parts[:-1])
    starts = (number for number, path in enumerate(paths) if path and path[1] in fields)
    return ": ".join(parts[next(starts, 0) :])
