"""Laws that every scenario keeps, each within its domain: what a run breaks, in words, or None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rescaled import faster_links, rescaled

from dpsim.engine import run_scenario
from dpsim.engine.kernel import exact_for
from dpsim.engine.run import Run
from dpsim.scenario import Scenario
from dpsim.strategy.aggregation import Coordination

_EXACT = 1e-9
_PARTS = ("compute", "input", "encode", "exposed_comm", "straggler_wait", "overlapped_comm")
# Of what still travels as the steps end: `Run.unsettled` says more.
_ON_THE_WAY = 1.01
# Flows that share links, slices that overtake others and greedy plans may gain from a worker that
# is late, as in Graham's anomalies (SIAM J. Appl. Math. 17, 1969): up to 5.2 % was seen.
_BY_SHARING = 0.1


def shares(run: Run) -> str | None:
    """No GPU computes more than its peak, and no link carries more than its rate."""
    found = run.result.utilisation
    share = found.hfu or 0.0
    # Measured throughputs are taken at their word, and the result says so.
    output = run.scenario.workload.utilisation and found.above_peak in run.result.warnings
    if share > 1 + _EXACT and not output:
        return f"GPUs compute at {share} of their peak"
    if run.unsettled is not None or any(each.factor > 1 for each in _changes(run)):
        return None
    carried = run.link_loads.shares(run.job.network.capacities).max(initial=0.0)
    return f"a link carries {carried} of its rate" if carried > _ON_THE_WAY else None


def parts(run: Run) -> str | None:
    """The six parts add up to the step of each worker, and none is negative."""
    found = {name: getattr(run.steps, name) for name in _PARTS}
    for name, seconds in found.items():
        if not np.isfinite(seconds).all() or seconds.min() < -_EXACT * run.step_time:
            return f"{name} is {seconds.min()} s"
    ends = _ends(run)
    total = sum(getattr(run.all_steps, name) for name in _PARTS[:-1]).sum(axis=0)
    if not np.allclose(total, ends, rtol=_EXACT, atol=0):
        return f"parts of {total} s, steps of {ends} s"
    means, mean = sum(run.result.parts_s.values()), run.result.step_time_s["mean"]
    return None if np.isclose(means, mean, rtol=_EXACT) else f"parts of {means} s, a step {mean} s"


def written_out(run: Run) -> str | None:
    """With every default written out it is the same scenario."""
    base, again = _as(run.scenario), _as(Scenario.model_validate(_plain(run.scenario)))
    if again.step_time == base.step_time:
        return None
    return f"a step takes {again.step_time} s instead of {base.step_time} s"


def engines(run: Run) -> str | None:
    """Where a vector of clocks is exact, events say the same of each worker and step."""
    if run.job.independent_workers or exact_for(run.job) is not None:
        return None
    one, other = (_as(run.scenario, engine=engine) for engine in ("vector", "events"))
    for name in _PARTS:
        first, second = getattr(one.steps, name), getattr(other.steps, name)
        if not np.allclose(first, second, rtol=_EXACT, atol=_EXACT * run.step_time):
            return f"{name} is {np.abs(first - second).max()} s apart, of {run.step_time} s"
    return None


def times_scale(run: Run, k: float = 4.0) -> str | None:
    """All rates times k and all times over k make steps of a k-th.

    Constants of libraries, kernels, ordinary hosts and scripts have seconds of their own, and so have
    measured throughputs: layers are measured ones, and collectives those on ideal links.
    """
    workload = run.scenario.workload
    measured = not isinstance(workload.model, str) and not workload.utilisation
    of_hosts = run.scenario.condition == "ordinary" or workload.input.kind == "script"
    if not measured or of_hosts or _libraries(run) - {"ideal"}:
        return None
    base, fast = _as(run.scenario), _as(rescaled(run.scenario, k))
    if np.allclose(fast.steps.step * k, base.steps.step, rtol=1e-6):
        return None
    return f"steps take {(fast.steps.step * k / base.steps.step).ravel()} of a {k:g}th"


def slower_worker(run: Run) -> str | None:
    """With one worker slower no run under BSP ends earlier."""
    if run.scenario.strategy.sync.kind != "bsp":
        return None
    content = _plain(run.scenario)
    slow = {"workers": [0], "factor": 1.5}
    content["disturbance"]["slow"] = [*(content["disturbance"].get("slow") or ()), slow]
    base, later = _as(run.scenario, warmup=0), _as(Scenario.model_validate(content), warmup=0)
    tolerance = _EXACT if _one_by_one(run) else _BY_SHARING
    sooner = 1 - _ends(later).max() / _ends(base).max()
    return f"it ends sooner by {sooner:.3g}" if sooner > tolerance else None


def faster_network(run: Run, k: float = 2.0) -> str | None:
    """Where collectives go one by one in one order, faster links make no worker later.

    Libraries choose by the links' rates, and are measured. Waits for offloaded data are part of
    computing, whose jitter stops at the GPU's peak: the shorter they are, the sooner it does.
    """
    offloads = run.scenario.strategy.aggregation.offloading.parts
    if not _one_by_one(run) or _libraries(run) - {"ideal"} or offloads:
        return None
    base, fast = _as(run.scenario, warmup=0), _as(faster_links(run.scenario, k), warmup=0)
    later = (_ends(fast) / _ends(base)).max() - 1
    return f"a worker ends later by {later:.3g}" if later > _EXACT else None


ALWAYS: tuple[Callable[[Run], str | None], ...] = (shares, parts)
IN_TURN: tuple[Callable[[Run], str | None], ...] = (
    written_out,
    engines,
    times_scale,
    slower_worker,
    faster_network,
)


def _one_by_one(run: Run) -> bool:
    """Whether each collective has its links to itself, in an order that times do not change.

    Then clocks are a max-plus system, in which nothing that is later makes anything earlier.
    """
    strategy = run.scenario.strategy
    # Priorities order calls by when they are ready, and MG-WFBP merges by what they take.
    in_order = strategy.overlap.kind not in ("priority", "mg-wfbp")
    combined = (
        strategy.aggregation.coordination is Coordination.COLLECTIVE
        and not run.job.independent_workers
    )
    return in_order and combined and exact_for(run.job) is None


def _as(scenario: Scenario, **settings: Any) -> Run:
    """The run of a scenario, of exactly the steps that it asks for."""
    content = scenario.run.model_copy(update=settings)
    return run_scenario(scenario.model_copy(update={"run": content}), settle=False)


def _ends(run: Run) -> np.ndarray:
    """When each worker's last step ends, from the start of the run."""
    return np.asarray(run.all_steps.step.sum(axis=0))


def _plain(scenario: Scenario) -> dict[str, Any]:
    content = scenario.model_dump(mode="json")
    content.pop("testbed", None)
    return content


def _libraries(run: Run) -> set[str]:
    return {choice.library for choice in run.job.setting.libraries}


def _changes(run: Run) -> tuple[Any, ...]:
    return tuple(run.scenario.disturbance.links)
