"""A turned knob: its change, its result, and their description."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpsim.engine import Result
from dpsim.studies.explain.knob import Change, Knob, as_options

_NEGLIGIBLE = 0.005  # a smaller change counts as none


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """A turned knob: its best change and the result, or None if the knob does not apply.

    ``why`` is the reason if nothing is gained.
    """

    name: str
    knob: Knob
    base: Result
    change: Change | None
    result: Result | None
    why: str | None

    @property
    def step_change(self) -> float:
        """The relative change of the step time; 0 if the knob does not apply."""
        return 0.0 if self.result is None else self.result.mean_step / self.base.mean_step - 1

    @property
    def change_per_sample(self) -> float:
        """The relative change of the time per sample over all workers.

        The change differs from the step's if the batch or the workers' speeds change.
        """
        if self.result is None:
            return 0.0
        return self.base.throughput_samples_per_s / self.result.throughput_samples_per_s - 1

    @property
    def threshold(self) -> float:
        """The threshold below which a change counts as none.

        Half a percent; for asynchronous workers at least the 95 % interval of the means.
        """
        # Asynchronous workers are chaotic: even a knob without effect changes their steps.
        if self.result is None or not self.base.independent_workers:
            return _NEGLIGIBLE
        return max(_NEGLIGIBLE, math.hypot(_scatter(self.base), _scatter(self.result)))

    @property
    def within_error(self) -> bool:
        """Whether the gain is within the models' errors, except those common to both runs."""
        if self.result is None:
            return False
        before, after = (1 / each.throughput_samples_per_s for each in (self.base, self.result))
        return self.base.indistinguishable_from(self.result, before, after)

    @property
    def gains(self) -> bool:
        """Whether the change makes training faster."""
        return self.change_per_sample <= -self.threshold

    @property
    def changed_strategy(self) -> list[str]:
        """How the changed strategy changes the model's updates, in words."""
        if self.result is None:
            return []
        own = self.base.job.scenario.strategy.inexact
        return [each for each in self.result.job.scenario.strategy.inexact if each not in own]

    @property
    def changes_updates(self) -> list[str]:
        """How strategy and global batch change the model's updates, in words."""
        if self.result is None:
            return []
        before, after = (each.job.scenario.global_batch for each in (self.base, self.result))
        batch = [] if before == after else [f"global batch {before:,} -> {after:,}"]
        return [*self.changed_strategy, *batch]

    @property
    def unclear(self) -> bool:
        """Whether the means scatter more than the change has effect."""
        return _NEGLIGIBLE <= abs(self.change_per_sample) < self.threshold

    @property
    def elasticity(self) -> float | None:
        """The arc elasticity of the step time: log(step after / before) / log(factor)."""
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
            "changes_updates": self.changes_updates,
            "nothing_below": self.threshold,
            "within_error": self.within_error,
            "interval_s": None
            if self.result is None or self.result.interval is None
            else self.result.interval.to_json(),
            "elasticity": self.elasticity,
            "why": self.why,
        }


def gain(turn: Turn) -> str:
    """Return the effect of a change that makes training faster, with its caveats."""
    assert turn.change is not None
    caveats = ", which the models' errors leave open" if turn.within_error else ""
    before, after = (_memory_warnings(each) for each in (turn.base, turn.result))
    # Leave out warnings that the unchanged scenario has too.
    caveats += "".join(f"; {each}" for each in after) if not before else ""
    if abs(turn.step_change - turn.change_per_sample) < _NEGLIGIBLE:
        return f"{turn.change.words}: {percent(turn.step_change)}{caveats}"
    per_sample, step = percent(turn.change_per_sample), percent(turn.step_change)
    return f"{turn.change.words}: {per_sample} per sample (step {step}){caveats}"


def no_gain(turn: Turn) -> str:
    """Return the effect of a change without a clear gain, and why."""
    assert turn.change is not None
    size = "no gain"
    if turn.unclear or turn.change_per_sample >= turn.threshold:
        size = f"{percent(turn.change_per_sample)} per sample"
    return f"{turn.change.words}: {size}, {turn.why}"


def percent(change: float) -> str:
    """Return a relative change in per cent, with sign and two digits."""
    return f"{change * 100:+.2g} %" if abs(change) < 0.1 else f"{change * 100:+.0f} %"


def _memory_warnings(result: Result | None) -> list[str]:
    return [] if result is None or result.memory is None else result.memory.warnings


def _scatter(result: Result) -> float:
    """Return half the 95 % interval of the mean step, relative to the mean."""
    step = result.step_time_s
    return (step["high"] - step["low"]) / 2 / step["mean"]
