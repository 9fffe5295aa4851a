"""Turn every knob of a scenario, one at a time with the same seed: its gain, or why it has none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from time import thread_time
from typing import Any

import numpy as np

from dpsim.base.budget import Budget, OverTimeError
from dpsim.base.errors import DpsimError, without_remedies
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
from dpsim.studies.explain.knob import Change, Options, Values, changed
from dpsim.studies.explain.knobs import KNOBS
from dpsim.studies.explain.reasons import reason
from dpsim.studies.explain.stragglers import StragglerCost, straggler_cost
from dpsim.studies.explain.turn import Turn, gain, no_gain, percent
from dpsim.studies.explain.uncertainty import Uncertainty, uncertainty_of
from dpsim.studies.explain.verdict import verdict

Predict = Callable[[Scenario], Result]

_EQUAL_WITHIN = 1e-9
_EQUAL_STEPS = 2  # enough if all steps are equal
_SLOW_STEPS = 10  # enough if each takes long to simulate
_TRIAL_STEPS = 4  # steps in which a knob's options are compared; the best is simulated in full


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
        """Changes to try, best first, then changes without a gain, with the reason."""
        return [line for lines in self.advice_by_heading.values() for line in lines]

    @property
    def advice_by_heading(self) -> dict[str, list[str]]:
        """The advice by heading."""
        turned = [turn for turn in self.by_updates if turn.change is not None]
        helps = [turn for turn in turned if turn.gains]
        return {
            "changes to try": [gain(turn) for turn in helps if not turn.changes_updates],
            "changes to try if the updates may change (training may then take more steps)": [
                gain(turn) for turn in helps if turn.changes_updates
            ],
            "no gain": [no_gain(turn) for turn in turned if not turn.gains],
        }

    @property
    def by_updates(self) -> list[Turn]:
        """The knobs, first those with gains that do not change the updates, then other gains."""
        # A different global batch changes updates less than a part of the strategy does.
        return sorted(
            self.turns,
            key=lambda turn: (
                not turn.gains,
                turn.gains and bool(turn.changed_strategy),
                turn.gains and bool(turn.changes_updates),
            ),
        )

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
    """Explain what limits ``scenario``, and with ``uncertainty`` also what determines its interval.

    ``progress`` gets the number of turned knobs; ``found`` gets the critical path, and each turned
    knob, the quickest first; ``tick`` is called at every simulated step. If the first simulation
    takes more than a few seconds, ``say`` gets a forecast of it; if all knobs do, the step time, a
    forecast of the remaining time, and the effect of each knob. Knobs for which no time is left are
    not turned. The vector engine is used where it is exact, even if the scenario asks for events.

    Compute times that are scaled to a measured step keep their scale. Raises DpsimError like
    `simulate`.
    """
    budget = Budget()

    jobs = KeptJobs()  # most knobs do not change the cluster

    def predict(changed_scenario: Scenario) -> Result:
        with budget.part(), prepared_by(jobs.prepare):
            return simulate(changed_scenario, lambda _: tick())

    watched = budget.watch(say, scenario.run.warmup + scenario.run.steps)

    def first(done: int) -> None:
        tick()
        watched(done)

    begun = thread_time()
    with budget.part(), prepared_by(jobs.prepare):
        run = run_scenario(scenario, Recording(steps=None), first, quick=True)
    # This run keeps all intervals, from which the critical path is read.
    base = run.result
    pinned = _fitted_scale(run)
    path = critical_path(run, _typical(run))
    found(path)
    fixed = changed(scenario, pinned)
    tried = with_quick_engine(_shorter(fixed, _steps_needed(base, fixed)), run.job)
    # Turned knobs are compared with a run of equally many steps, so that chance does not decide.
    before = base
    if tried != fixed:
        begun = thread_time()
        before = predict(tried)
    options = {name: knob.options(fixed) for name, knob in KNOBS.items()}
    forecast = budget.forecast(sum(map(_count, options.values())), thread_time() - begun)
    if forecast is not None:
        say(f"a step takes {human(base.mean_step, TIME)}; turning knobs: {forecast}")
    turns: dict[str, Turn] = {}
    # Turn the quickest knobs first, because there may be no time for the others.
    for name in sorted(options, key=lambda name: _count(options[name])):
        turn = turns[name] = _turn(name, options[name], tried, before, pinned, predict)
        if forecast is not None and turn.change is not None:
            say(f"{turn.change.words}: {percent(turn.change_per_sample)} per sample")
        found(turn)
        progress(len(turns))

    # Sort by gain, the largest first; knobs that cannot be turned are last.
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


def _count(options: Options) -> int:
    """Return the number of a knob's options."""
    return 0 if isinstance(options, str) else len(options)


def _fitted_scale(run: Run) -> Values:
    """Return the fitted factor of compute times, which replaces the measured step."""
    factor = fitted_factor(run.job)
    return {} if factor is None else {"calibration": factor}


def _steps_needed(base: Result, scenario: Scenario) -> int:
    """Return how many steps show the effect of a knob."""
    # Steps of one worker must be equal; workers may differ.
    times = base.steps.step
    if not base.independent_workers and np.ptp(times, axis=0).max() <= _EQUAL_WITHIN * times.mean():
        return _EQUAL_STEPS
    by_flows = not base.independent_workers and scenario.strategy.aggregation.timed_by_flows
    return _SLOW_STEPS if by_flows else scenario.run.steps


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
    # With periodic averaging a few steps are not representative.
    several = len(options) > 1 and scenario.strategy.sync.one_version
    trial = _shorter(scenario, _TRIAL_STEPS, 1) if several else scenario
    results, refused = _simulate_options(options, trial, predict)
    if several and results and trial != scenario:
        best_of_trial, _ = _best(results)
        results, refused = _simulate_options([best_of_trial], scenario, predict)
    if not results:
        return Turn(name, knob, base, None, None, f"{options[0].words} cannot be: {refused}")
    best, result = _best(results)
    # Include the pinned scale, so that setting the values by hand gives the same result.
    return Turn(name, knob, base, replace(best, values={**pinned, **best.values}), result, None)


def _simulate_options(
    options: Iterable[Change], scenario: Scenario, predict: Predict
) -> tuple[list[tuple[Change, Result]], str]:
    """Return the possible changes with their results, and why the last other one is refused."""
    results, refused = [], ""
    for change in options:
        try:
            results.append((change, predict(changed(scenario, change.values))))
        # DpsimError includes FailedError, so a knob without enough time or memory stops no other.
        except DpsimError as error:
            refused = without_remedies(error).partition("\n")[0]
    return results, refused


def _best(results: Iterable[tuple[Change, Result]]) -> tuple[Change, Result]:
    return max(results, key=lambda pair: pair[1].throughput_samples_per_s)


def _typical(run: Run) -> int:
    """Return the recorded step whose length is nearest to the mean."""
    lengths = run.steps.step.mean(axis=1)
    distance = np.abs(lengths - lengths.mean())
    return int(distance[: run.recorded.stop].argmin())


def _with_reasons(turns: Iterable[Turn]) -> list[Turn]:
    """Add the reason to each turn that gains nothing."""
    listed = list(turns)
    # Reverse the order, so that for each part the dict keeps the knob with the largest gain.
    helpers = {turn.knob.part: turn.knob.title for turn in reversed(listed) if turn.gains}
    explained = []
    for turn in listed:
        if turn.result is None or turn.change is None or turn.gains:
            explained.append(turn)
            continue
        if turn.unclear:
            why = f"means of so few steps scatter by {turn.threshold:.0%}: more run.steps tell"
        else:
            better_knob = helpers.get(turn.knob.part)
            why = reason(turn.knob, turn.change, turn.base, turn.result, better_knob)
        explained.append(replace(turn, why=why))
    return explained
