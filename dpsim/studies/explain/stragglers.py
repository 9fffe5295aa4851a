"""What stragglers cost: how much is waited, for whom and why, and what other ways would make of it.

A worker is waited for in a step when it is the one that waits least for the others: whoever comes
last to a meeting waits for nobody. All that is waited in that step is put down to it. A cause costs
what the step is longer than without it, with the same seed. Causes need not add up, since the
slowest worker hides the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.engine import Result, Run
from dpsim.scenario import Scenario, shape_of
from dpsim.strategy import StrategyConfig, rule_against
from dpsim.strategy.sync import SyncConfig
from dpsim.studies.explain.changed import Values, changed

_LEAST_WAIT = 0.001  # of the step: less is none
_MOST_NAMED = 5
_STEPS = 15  # in which another way is tried, at most
_UNDISTURBED: Values = {
    "disturbance.jitter": None,
    "disturbance.slow": [],
    "disturbance.transient": [],
}


@dataclass(frozen=True, slots=True)
class WaitedFor:
    """``name``: a worker or a node. ``share``: of all that is waited in the run."""

    name: str
    share: float


@dataclass(frozen=True, slots=True)
class Cause:
    """A disturbance of the scenario, and the mean step (s) with all the others but without it."""

    title: str
    path: str
    step_time_s: float


@dataclass(frozen=True, slots=True)
class Way:
    """Another way to synchronise under the same stragglers.

    ``options`` are it as ``--set`` takes it. ``changes`` says what it does to the updates, None
    where they are those of plain synchronous training. ``refused`` says why it cannot be, and then
    there are no numbers; ``rule`` is the reason alone, the same for all ways that a rule of
    `dpsim.strategy` forbids, and None where something else stands in the way.
    """

    title: str
    options: tuple[str, ...]
    throughput_samples_per_s: float | None = None
    step_time_s: float | None = None
    straggler_wait_s: float | None = None
    changes: str | None = None
    refused: str | None = None
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class StragglerCost:
    """Seconds are means over steps and workers.

    ``without_s`` is the step with no disturbance of computing at all.
    """

    step_time_s: float
    straggler_wait_s: float
    without_s: float
    workers: tuple[WaitedFor, ...]
    nodes: tuple[WaitedFor, ...]
    causes: tuple[Cause, ...]
    ways: tuple[Way, ...]

    @property
    def slow_down(self) -> float:
        """The step over the one without stragglers, less 1."""
        return self.step_time_s / self.without_s - 1

    def to_json(self) -> dict[str, Any]:
        """The key ``stragglers`` of ``dpsim explain --json``."""
        return {
            **asdict(self),
            "slow_down": self.slow_down,
        }


def straggler_cost(
    run: Run, scenario: Scenario, base: Result, predict: Callable[[Scenario], Result]
) -> StragglerCost | None:
    """What stragglers cost in ``run``; None where nobody is slow and nobody waits for another.

    What is changed is simulated by ``predict`` as ``scenario``, whose own result is ``base``.
    """
    disturbances = dict(_disturbances(scenario))
    wait = float(run.steps.straggler_wait.mean())
    if not disturbances and wait < _LEAST_WAIT * run.step_time:
        return None
    without = base
    if disturbances:
        without = predict(changed(scenario, _UNDISTURBED))

    def left_out(path: str, left: Any) -> Result:
        # Without the only one there is none.
        return without if len(disturbances) == 1 else predict(changed(scenario, {path: left}))

    causes = [
        Cause(title, path, left_out(path, left).mean_step)
        for title, (path, left) in disturbances.items()
    ]
    waited = _waited_for(run.steps.straggler_wait, run.steps.compute)
    node_of = np.asarray(run.job.cluster.node_of)
    by_node = np.asarray(np.bincount(node_of, weights=waited), dtype=float)
    return StragglerCost(
        base.mean_step,
        float(base.steps.straggler_wait.mean()),
        without.mean_step,
        _most(waited, "worker"),
        _most(by_node, "node"),
        # The step without the costliest cause is the shortest.
        tuple(sorted(causes, key=lambda cause: cause.step_time_s)),
        tuple(_ways(scenario, base, predict)),
    )


def _disturbances(scenario: Scenario) -> Iterator[tuple[str, tuple[str, Any]]]:
    """Each disturbance of computing: its name, its path, and what is left there without it."""
    met = scenario.disturbance
    if met.jitter is not None:
        yield "jitter", ("disturbance.jitter", None)
    for name, title in (("slow", "slow workers"), ("transient", "slow-downs that come and go")):
        entries = getattr(met, name)
        for number in range(len(entries)):
            left = [*entries[:number], *entries[number + 1 :]]
            which = f" {number}" if len(entries) > 1 else ""
            yield f"{title}{which}", (f"disturbance.{name}", left)


def _waited_for(wait: FloatArray, compute: FloatArray) -> FloatArray:
    """The seconds that are waited for each worker, of arrays of shape (steps, workers)."""
    # Among those that wait as little, the one that computes longest is the one who came last.
    # The last key of lexsort counts first. Each row of `order` ranks the workers of a step.
    order = np.lexsort((-compute, wait), axis=1)
    last = order[:, 0]
    waited = np.zeros(wait.shape[1])
    # One worker may come last in many steps: a plain `waited[last] +=` would count one of them.
    np.add.at(waited, last, wait.sum(axis=1))
    return waited


def _most(waited: FloatArray, word: str) -> tuple[WaitedFor, ...]:
    """Those who are waited for most, the most first."""
    total = float(waited.sum())
    if total == 0.0:
        return ()
    # Stable, so that of workers alike the lowest number is named, on every machine.
    order = np.argsort(-waited, kind="stable")[:_MOST_NAMED]
    return tuple(
        WaitedFor(f"{word} {number}", float(waited[number]) / total)
        for number in order
        if waited[number] > 0.0
    )


def _ways(scenario: Scenario, base: Result, predict: Callable[[Scenario], Result]) -> Iterator[Way]:
    """The scenario's own way first, then every other in fewer steps, with nothing but its name."""
    own = scenario.strategy
    steps = min(scenario.run.steps, _STEPS)
    yield _way(f"{own.sync.kind} (as it is)", (), scenario, base)
    for title, change in _other_ways(own):
        options = tuple(f"strategy.{part}.kind={kind}" for part, kind in change.items())
        named = {part: {"kind": kind} for part, kind in change.items()}
        # Both parts at once, since one of them alone may not go with the rest.
        whole = own.model_dump(mode="json", exclude_unset=True) | named
        try:
            other = changed(scenario, {"strategy": whole, "run.steps": steps})
            yield _way(title, options, other, predict(other))
        except DpsimError as error:
            why = str(error).partition("\n")[0].removeprefix("strategy: ")
            yield Way(title, options, refused=why, rule=_forbidden_by(own, change))


def _forbidden_by(own: StrategyConfig, change: Mapping[str, str]) -> str | None:
    """The reason of the rule that forbids ``own`` with other kinds of some parts, if one does."""
    shape = shape_of(StrategyConfig)
    parts = {part: shape.below(part).kinds()[kind](kind=kind) for part, kind in change.items()}
    # A copy is not validated: validation would refuse it, in words alone.
    rule = rule_against(own.model_copy(update=parts))
    return None if rule is None else rule.why


def _other_ways(own: StrategyConfig) -> Iterator[tuple[str, dict[str, str]]]:
    """Title and kinds: of synchronisation where it is, and of gossip in step and out of step."""
    for kind in shape_of(SyncConfig).kinds():
        if kind != own.sync.kind:
            yield kind, {"sync": kind}
    if own.aggregation.one_version:
        for title, kind in (("gossip", "bsp"), ("gossip, asynchronous (AD-PSGD)", "asp")):
            yield title, {"aggregation": "gossip", "sync": kind}


def _way(title: str, options: tuple[str, ...], scenario: Scenario, result: Result) -> Way:
    return Way(
        title,
        options,
        result.throughput_samples_per_s,
        result.mean_step,
        float(result.steps.straggler_wait.mean()),
        next(iter(scenario.strategy.inexact), None),
    )
