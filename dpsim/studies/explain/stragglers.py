"""The cost of stragglers: waiting times, the workers and causes behind them, and other strategies.

A step's total waiting time is attributed to the worker that waits least in it, because the last to
arrive at a collective does not wait. The cost of a cause is the change of the step without it, with
the same seed. Costs need not add up, because the slowest worker hides the others.
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
from dpsim.studies.explain.knob import Values, changed

_LEAST_WAIT = 0.001  # of the step: less waiting is ignored
_MOST_NAMED = 5
_STEPS = 15  # the most steps in which another strategy is tried
_UNDISTURBED: Values = {
    "disturbance.jitter": None,
    "disturbance.slow": [],
    "disturbance.transient": [],
}


@dataclass(frozen=True, slots=True)
class WaitedFor:
    """A worker or a node (``name``), and its share of all waiting in the run."""

    name: str
    share: float


@dataclass(frozen=True, slots=True)
class Cause:
    """A disturbance of the scenario, and the mean step (s) without it."""

    title: str
    path: str
    step_time_s: float


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another synchronisation under the same stragglers.

    ``options`` are its arguments for ``--set``. ``changes`` says how it changes the updates of
    synchronous training, if it does. ``refused`` is the reason if it is impossible; then there are
    no numbers. ``rule`` is the reason of the rule of `dpsim.strategy` that forbids it, if one does.
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
    """The cost of stragglers, in seconds: means over steps and workers.

    ``without_s`` is the step without disturbances of computing.
    """

    step_time_s: float
    straggler_wait_s: float
    without_s: float
    workers: tuple[WaitedFor, ...]
    nodes: tuple[WaitedFor, ...]
    causes: tuple[Cause, ...]
    ways: tuple[Alternative, ...]

    @property
    def slow_down(self) -> float:
        """The relative slowdown of the step by stragglers."""
        return self.step_time_s / self.without_s - 1

    def to_json(self) -> dict[str, Any]:
        """Return the key ``stragglers`` of ``dpsim explain --json``."""
        return {
            **asdict(self),
            "slow_down": self.slow_down,
        }


def straggler_cost(
    run: Run, scenario: Scenario, base: Result, predict: Callable[[Scenario], Result]
) -> StragglerCost | None:
    """Return the cost of stragglers in ``run``, or None if no worker is slow or waits.

    ``predict`` simulates changes of ``scenario``, whose own result is ``base``.
    """
    disturbances = dict(_disturbances(scenario))
    wait = float(run.steps.straggler_wait.mean())
    if not disturbances and wait < _LEAST_WAIT * run.step_time:
        return None
    without = base
    if disturbances:
        without = predict(changed(scenario, _UNDISTURBED))

    def left_out(path: str, left: Any) -> Result:
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
        # Sort by cost, the costliest cause first.
        tuple(sorted(causes, key=lambda cause: cause.step_time_s)),
        tuple(_alternatives(scenario, base, predict)),
    )


def _disturbances(scenario: Scenario) -> Iterator[tuple[str, tuple[str, Any]]]:
    """Yield each disturbance of computing: its name, its path, and the path's value without it."""
    disturbance = scenario.disturbance
    if disturbance.jitter is not None:
        yield "jitter", ("disturbance.jitter", None)
    for name, title in (("slow", "slow workers"), ("transient", "slow-downs that come and go")):
        entries = getattr(disturbance, name)
        for number in range(len(entries)):
            others = [*entries[:number], *entries[number + 1 :]]
            which = f" {number}" if len(entries) > 1 else ""
            yield f"{title}{which}", (f"disturbance.{name}", others)


def _waited_for(wait: FloatArray, compute: FloatArray) -> FloatArray:
    """Return the seconds waited for each worker; both arrays have shape (steps, workers)."""
    # Of workers that wait equally little, the one that computes longest arrived last. lexsort's
    # last key is the primary one.
    order = np.lexsort((-compute, wait), axis=1)
    last = order[:, 0]
    waited = np.zeros(wait.shape[1])
    # `waited[last] +=` would count only one step of each worker.
    np.add.at(waited, last, wait.sum(axis=1))
    return waited


def _most(waited: FloatArray, word: str) -> tuple[WaitedFor, ...]:
    """Return the workers or nodes that are waited for most, the most first."""
    total = float(waited.sum())
    if total == 0.0:
        return ()
    # Stable, so that the lowest number of equal workers is named on every machine.
    order = np.argsort(-waited, kind="stable")[:_MOST_NAMED]
    return tuple(
        WaitedFor(f"{word} {number}", float(waited[number]) / total)
        for number in order
        if waited[number] > 0.0
    )


def _alternatives(
    scenario: Scenario, base: Result, predict: Callable[[Scenario], Result]
) -> Iterator[Alternative]:
    """Yield the scenario's own synchronisation, then all others, in fewer steps and by defaults."""
    own = scenario.strategy
    steps = min(scenario.run.steps, _STEPS)
    yield _alternative(f"{own.sync.kind} (the file's)", (), scenario, base)
    for title, change in _other_kinds(own):
        options = tuple(f"strategy.{part}.kind={kind}" for part, kind in change.items())
        named = {part: {"kind": kind} for part, kind in change.items()}
        # Set both parts at once, because one alone may conflict with the rest.
        whole = own.model_dump(mode="json", exclude_unset=True) | named
        try:
            other = changed(scenario, {"strategy": whole, "run.steps": steps})
            yield _alternative(title, options, other, predict(other))
        except DpsimError as error:
            why = str(error).partition("\n")[0].removeprefix("strategy: ")
            yield Alternative(title, options, refused=why, rule=_forbidden_by(own, change))


def _forbidden_by(own: StrategyConfig, change: Mapping[str, str]) -> str | None:
    """Return the reason of the rule that forbids ``own`` with the changed kinds, if any does."""
    shape = shape_of(StrategyConfig)
    parts = {part: shape.below(part).kinds()[kind](kind=kind) for part, kind in change.items()}
    # A copy is not validated; validation would only give a message.
    rule = rule_against(own.model_copy(update=parts))
    return None if rule is None else rule.why


def _other_kinds(own: StrategyConfig) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield titles and kinds: other synchronisation, then synchronous and asynchronous gossip."""
    for kind in shape_of(SyncConfig).kinds():
        if kind != own.sync.kind:
            yield kind, {"sync": kind}
    if own.aggregation.one_version:
        for title, kind in (("gossip", "bsp"), ("gossip, asynchronous (AD-PSGD)", "asp")):
            yield title, {"aggregation": "gossip", "sync": kind}


def _alternative(
    title: str, options: tuple[str, ...], scenario: Scenario, result: Result
) -> Alternative:
    return Alternative(
        title,
        options,
        result.throughput_samples_per_s,
        result.mean_step,
        float(result.steps.straggler_wait.mean()),
        next(iter(scenario.strategy.inexact), None),
    )
