"""Turn every knob of a scenario, one at a time, with the same seed.

The answer states the gain of each knob, and the reason if there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from time import thread_time
from typing import Any

import numpy as np

from dpsim.base.budget import Budget, OverTimeError
from dpsim.base.errors import DpsimError, without_ways_out
from dpsim.base.lazy import Shown
from dpsim.base.units import TIME, human
from dpsim.engine import (
    KeptJobs,
    Recording,
    Result,
    Run,
    fitted_factor,
    prepared_by,
    run_scenario,
    simulate,
    with_quick_engine,
)
from dpsim.scenario import Scenario
from dpsim.studies.explain.critical_path import CriticalPath, critical_path
from dpsim.studies.explain.knob import Change, Knob, Options, Values, as_options, changed
from dpsim.studies.explain.knobs import KNOBS
from dpsim.studies.explain.reasons import reason
from dpsim.studies.explain.stragglers import StragglerCost, straggler_cost
from dpsim.studies.explain.uncertainty import Uncertainty, uncertainty_of
from dpsim.studies.explain.verdict import verdict

Predict = Callable[[Scenario], Result]

NOTHING = 0.005  # a smaller change counts as none
_STEADY = 1e-9
_FEW = 2  # steps, if all are alike
_SOME = 10
_TRIAL = 4  # steps to compare several ways to turn a knob; the best is simulated in full


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """A turned knob: its best change and the result.

    Both are None if there is nothing to turn; ``why`` is the reason if nothing is gained.
    """

    name: str
    knob: Knob
    base: Result
    change: Change | None
    result: Result | None
    why: str | None

    @property
    def step_change(self) -> float:
        """The relative change of the step time; 0 if nothing is turned."""
        return 0.0 if self.result is None else self.result.mean_step / self.base.mean_step - 1

    @property
    def change_per_sample(self) -> float:
        """The relative change of the time per sample over all workers.

        Equal to the step's change, unless the batch or the workers' pace differ.
        """
        if self.result is None:
            return 0.0
        return self.base.throughput_samples_per_s / self.result.throughput_samples_per_s - 1

    @property
    def nothing(self) -> float:
        """The threshold below which a change counts as none.

        Half a percent; for asynchronous workers at least the 95 % interval of the means.
        """
        # Asynchronous workers are chaotic: another seed gives other steps, and so does a knob
        # without effect.
        if self.result is None or not self.base.alone:
            return NOTHING
        return max(NOTHING, math.hypot(_scatter(self.base), _scatter(self.result)))

    @property
    def within_error(self) -> bool:
        """Whether the gain is within the models' errors; errors common to both runs cancel."""
        if self.result is None:
            return False
        before, after = (1 / each.throughput_samples_per_s for each in (self.base, self.result))
        return self.base.alike(self.result, before, after)

    @property
    def gains(self) -> bool:
        """Whether the change makes training faster."""
        return self.change_per_sample <= -self.nothing

    @property
    def unclear(self) -> bool:
        """Whether the scatter of the means hides if the change gains or loses anything."""
        return NOTHING <= abs(self.change_per_sample) < self.nothing

    @property
    def elasticity(self) -> float | None:
        """The percentage of step time per percent of the knob, over the whole change.

        An arc elasticity: log(step after / before) / log(factor).
        """
        if self.change is None or self.change.factor is None:
            return None
        return math.log1p(self.step_change) / math.log(self.change.factor)

    def to_json(self) -> dict[str, Any]:
        """Return a row of ``dpsim explain --json``."""
        return {
            "knob": self.name,
            "title": self.knob.title,
            "change": None if self.change is None else self.change.words,
            "factor": None if self.change is None else self.change.factor,
            "set": [] if self.change is None else as_options(self.change.values),
            "step_time_s": None if self.result is None else self.result.mean_step,
            "before_s": self.base.mean_step,
            "step_change": self.step_change,
            "change_per_sample": self.change_per_sample,
            "nothing_below": self.nothing,
            "within_error": self.within_error,
            "interval_s": None
            if self.result is None or self.result.interval is None
            else self.result.interval.to_json(),
            "elasticity": self.elasticity,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Explanation(Shown):
    """The critical path of a typical step of ``base``, and all knobs, the largest gain first.

    ``uncertainty`` is None unless it was asked for.
    """

    base: Result
    path: CriticalPath
    turns: tuple[Turn, ...]
    stragglers: StragglerCost | None = None
    uncertainty: Uncertainty | None = None

    def __repr__(self) -> str:
        best = next((turn.name for turn in self.turns if turn.gains), "nothing")
        return f"<Explanation of {self.base.name}: {best} gains most>"

    @property
    def advice(self) -> list[str]:
        """Advice on what to try, best first, then on what gains nothing, with the reason."""
        helps = [turn for turn in self.turns if turn.gains]
        rest = [turn for turn in self.turns if turn.change is not None and not turn.gains]
        return [*map(_gain, helps), *map(_no_gain, rest)]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of ``dpsim explain FILE``."""
        return {
            "schema_version": 1,
            "kind": "explain",
            "name": self.base.name,
            "verdict": verdict(self.base),
            "step_time_s": self.base.mean_step,
            "interval_s": None if self.base.interval is None else self.base.interval.to_json(),
            "parts_s": self.base.parts_s,
            "overlapped_comm_s": self.base.overlapped_comm_s,
            "throughput_samples_per_s": self.base.throughput_samples_per_s,
            **asdict(self.base.utilisation),
            "workers": self.base.workers,
            "critical_path": self.path.to_json(),
            "knobs": [turn.to_json() for turn in self.turns],
            "advice": self.advice,
            "stragglers": None if self.stragglers is None else self.stragglers.to_json(),
            "uncertainty": None if self.uncertainty is None else self.uncertainty.to_json(),
            "seed": self.base.seed,
            "provenance": self.base.provenance,
        }


def explain(
    scenario: Scenario,
    progress: Callable[[int], None] = lambda done: None,
    tick: Callable[[], None] = lambda: None,
    say: Callable[[str], None] = lambda text: None,
    *,
    uncertainty: bool = False,
    found: Callable[[CriticalPath | Turn], None] = lambda part: None,
) -> Explanation:
    """Explain what limits ``scenario``, with ``uncertainty`` also what determines its interval.

    ``progress`` gets the number of knobs turned so far; ``found`` gets the critical path, and each
    knob as soon as it is turned, the quickest first; ``tick`` is called at every simulated step.
    If turning all knobs takes more than a few seconds, ``say`` gets the step time, a forecast of
    the remaining time, and then the effect of each knob as soon as it is known. Knobs for which no
    time is left are not turned.

    Compute times that are scaled to a measured step keep their scale while knobs are turned. Raises
    DpsimError as `simulate` does.
    """
    budget = Budget()

    jobs = KeptJobs()  # most knobs do not change the cluster

    def predict(given: Scenario) -> Result:
        with budget.part(), prepared_by(jobs.prepare):
            return simulate(given, lambda _: tick())

    begun = thread_time()
    with budget.part(), prepared_by(jobs.prepare):
        run = run_scenario(scenario, Recording(steps=None), lambda _: tick())
    # This run keeps all intervals, since the critical path is read off them.
    base, pinned = run.result, _pinned(run)
    path = critical_path(run, _typical(run))
    found(path)
    fixed = changed(scenario, pinned)
    tried = with_quick_engine(_shorter(fixed, _enough(base, fixed)), run.job)
    # Turned knobs are compared with a run of as many steps, so that chance does not decide.
    before = base
    if tried != fixed:
        begun = thread_time()
        before = predict(tried)
    options = {name: knob.options(fixed) for name, knob in KNOBS.items()}
    forecast = budget.forecast(sum(map(_ways, options.values())), thread_time() - begun)
    if forecast is not None:
        say(f"a step takes {human(base.mean_step, TIME)}; turning knobs: {forecast}")
    turns: dict[str, Turn] = {}
    # The quickest knobs come first: their answers are early, and there may be no time for the rest.
    for name in sorted(options, key=lambda name: _ways(options[name])):
        turn = turns[name] = _turn(name, options[name], tried, before, pinned, predict)
        if forecast is not None and turn.change is not None:
            say(f"{turn.change.words}: {_percent(turn.change_per_sample)} per sample")
        found(turn)
        progress(len(turns))

    # The most negative change gains most; knobs that cannot be turned come last.
    ranked = sorted(
        (turns[name] for name in KNOBS),
        key=lambda turn: (turn.change is None, turn.change_per_sample),
    )
    stragglers: StragglerCost | None = None
    uncertain: Uncertainty | None = None
    with suppress(OverTimeError):
        stragglers = straggler_cost(run, tried, before, predict)
        with budget.part():
            uncertain = uncertainty_of(run) if uncertainty else None
    return Explanation(base, path, tuple(_with_reasons(ranked)), stragglers, uncertain)


def _ways(options: Options) -> int:
    """Return the number of ways to turn a knob."""
    return 0 if isinstance(options, str) else len(options)


def _pinned(run: Run) -> Values:
    """Return the fitted factor of compute times, which replaces the measured step."""
    factor = fitted_factor(run.job)
    return {} if factor is None else {"calibration": factor}


def _enough(base: Result, scenario: Scenario) -> int:
    """Return the number of steps that shows the effect of a knob.

    Few if all steps are alike, not all if each takes long to simulate.
    """
    # Compared along each worker's steps: workers may differ, steps may not.
    times = base.steps.step
    if not base.alone and np.ptp(times, axis=0).max() <= _STEADY * times.mean():
        return _FEW
    by_flows = not base.alone and scenario.strategy.aggregation.timed_by_flows
    return _SOME if by_flows else scenario.run.steps


def _shorter(scenario: Scenario, steps: int, warmup: int | None = None) -> Scenario:
    run = scenario.run
    fewer = {
        "steps": min(steps, run.steps),
        "warmup": run.warmup if warmup is None else min(warmup, run.warmup),
    }
    return scenario.model_copy(update={"run": run.model_copy(update=fewer)})


def _turn(
    name: str,
    options: Options,
    scenario: Scenario,
    base: Result,
    pinned: Values,
    predict: Predict,
) -> Turn:
    """Turn one knob and return its best change."""
    knob = KNOBS[name]
    if isinstance(options, str):
        return Turn(name, knob, base, None, None, options)
    # If models are averaged periodically, steps differ, and a few of them are not representative.
    several = len(options) > 1 and scenario.strategy.sync.one_version
    trial = _shorter(scenario, _TRIAL, 1) if several else scenario
    found, refused = _simulated(options, trial, predict)
    if several and found and trial != scenario:
        best_of_trial, _ = _best(found)
        found, refused = _simulated([best_of_trial], scenario, predict)
    if not found:
        return Turn(name, knob, base, None, None, f"{options[0].words} cannot be: {refused}")
    best, result = _best(found)
    # The pinned scale is among the values: setting them by hand gives the same result.
    return Turn(name, knob, base, replace(best, values={**pinned, **best.values}), result, None)


def _simulated(
    options: Iterable[Change], scenario: Scenario, predict: Predict
) -> tuple[list[tuple[Change, Result]], str]:
    """Return the possible changes with their results, and why the last of the others is refused."""
    found, refused = [], ""
    for change in options:
        try:
            found.append((change, predict(changed(scenario, change.values))))
        # FailedError too: a knob that takes too much time or memory must not stop the others.
        except DpsimError as error:
            refused = without_ways_out(error).partition("\n")[0]
    return found, refused


def _best(found: Iterable[tuple[Change, Result]]) -> tuple[Change, Result]:
    return max(found, key=lambda pair: pair[1].throughput_samples_per_s)


def _typical(run: Run) -> int:
    """Return the recorded step whose length is nearest to the mean."""
    lengths = run.steps.step.mean(axis=1)
    distance = np.abs(lengths - lengths.mean())
    return int(distance[: run.recorded.stop].argmin())


def _with_reasons(turns: Iterable[Turn]) -> list[Turn]:
    """Add the reason to each turn that gains nothing."""
    listed = list(turns)
    # In reverse, so that the knob with the largest gain of a part is the one kept.
    helpers = {turn.knob.part: turn.knob.title for turn in reversed(listed) if turn.gains}
    found = []
    for turn in listed:
        if turn.result is None or turn.change is None or turn.gains:
            found.append(turn)
            continue
        if turn.unclear:
            why = f"means of so few steps scatter by {turn.nothing:.0%}: more run.steps tell"
        else:
            instead = helpers.get(turn.knob.part)
            why = reason(turn.knob, turn.change, turn.base, turn.result, instead)
        found.append(replace(turn, why=why))
    return found


def _gain(turn: Turn) -> str:
    assert turn.change is not None
    left_open = ", which the models' errors leave open" if turn.within_error else ""
    if abs(turn.step_change - turn.change_per_sample) < NOTHING:
        return f"{turn.change.words}: {_percent(turn.step_change)}{left_open}"
    per_sample, step = _percent(turn.change_per_sample), _percent(turn.step_change)
    return f"{turn.change.words}: {per_sample} per sample (step {step}){left_open}"


def _no_gain(turn: Turn) -> str:
    assert turn.change is not None
    size = "no gain"
    if turn.unclear or turn.change_per_sample >= turn.nothing:
        size = f"{_percent(turn.change_per_sample)} per sample"
    return f"{turn.change.words}: {size}, {turn.why}"


def _percent(change: float) -> str:
    return f"{change * 100:+.2g} %" if abs(change) < 0.1 else f"{change * 100:+.0f} %"


def _scatter(result: Result) -> float:
    """Return half of the 95 % interval of the mean step, relative to the mean."""
    step = result.step_time_s
    return (step["high"] - step["low"]) / 2 / step["mean"]
