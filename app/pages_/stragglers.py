"""Stragglers and synchronisation.

The effect of slow workers on each kind of synchronisation, and the cost of staleness.
"""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from app import controls, forms, sidebar
from app.charts import chart, columns, table
from app.headline import by_rate, fastest, sentence
from app.reading import with_fitted_times
from app.waiting import refuse, simulated, why_not
from app.words import kind_words
from dpsim.base.errors import DpsimError
from dpsim.base.units import TIME, human
from dpsim.engine import Result
from dpsim.report.figures.sync_figures import (
    staleness_by_kind_figure,
    step_times_figure,
    straggler_cost_figure,
)
from dpsim.report.text.comparison import compare_table

# 1.28 is the mean of jobs with stragglers in a fleet of 3,079 (Lin et al., OSDI 2025).
_FACTORS = ("1", "1.28", "1.5", "2", "3", "5", "10")
_PATH = "strategy.sync.kind"
_KINDS = ("bsp", "backup", "ssp", "asp", "local-sgd")
Outcomes = Mapping[str, Result | DpsimError]
# The field that makes workers slow, and its value (with %, since YAML has braces).
_SLOW = {
    "worker 0 is always slow": ("disturbance.slow", "[{workers: [0], factor: %s}]"),
    "all workers are slow at times": (
        "disturbance.transient",
        "[{rate: 0.02, mean_steps: 3, factor: %s}]",
    ),
}


def draw() -> None:
    """Draw the page."""
    spec = sidebar.draw()
    path, value = _SLOW[controls.switch("who is slow", tuple(_SLOW), "slow", next(iter(_SLOW)))]
    factor = controls.slide("slow-down factor", _FACTORS, "severity", "2")
    known = list(forms.union("strategy.sync").kinds)
    kinds = controls.pick_several(
        "synchronisation", known, "sync", [kind for kind in _KINDS if kind in known]
    )
    # The measured step does not apply to the scenario with slower workers.
    spec = with_fitted_times(spec)
    # It replaces the scenario's stragglers.
    slow = spec.with_value(path, value % factor)
    specs = {kind: spec.with_value(_PATH, kind) for kind in kinds}
    slowed = {f"slow {kind}": slow.with_value(_PATH, kind) for kind in kinds}
    both = simulated({**specs, **slowed}, "simulating each kind")
    if both is not None:
        found = {kind: both[f"slow {kind}"] for kind in kinds}
        _draw_results(_completed(found), _completed({kind: both[kind] for kind in kinds}))
        why_not(found)


def _completed(found: Outcomes) -> dict[str, Result]:
    """Return the results, by the display name of each kind."""
    return {kind_words(kind): each for kind, each in found.items() if isinstance(each, Result)}


def _verdict(results: Mapping[str, Result], undisturbed: Mapping[str, Result]) -> str:
    """Return which kind is fastest with slow workers, its remaining rate, and its cost."""
    first, best = next(iter(by_rate(results).items()))
    text = fastest(results)
    if first in undisturbed:
        kept = best.throughput_samples_per_s / undisturbed[first].throughput_samples_per_s
        text += f"; it keeps {kept:.0%} of its throughput without stragglers"
    # Speed is not everything: an update from old parameters may gain less.
    stale = best.staleness
    gap, late = stale["clock_gap"]["max"], stale["versions"]["max"]
    if late:
        text += f". The cost: workers up to {gap:,} steps apart, and gradients up to {late:,} "
        text += "updates late"
    return f"{text}."


def _draw_over_all_reduces(results: Mapping[str, Result]) -> None:
    """Draw a note on kinds known from parameter servers where no servers are used."""
    found = [
        kind
        for kind, result in results.items()
        if result.job.scenario.strategy.aggregation.kind == "allreduce"
        and not result.job.scenario.strategy.sync.waits
    ]
    if found:
        st.caption(
            f"{' and '.join(found)} without parameter servers: the first worker to arrive "
            "starts an all-reduce, to which the others contribute the gradients that they have."
        )


def _draw_results(results: dict[str, Result], undisturbed: dict[str, Result]) -> None:
    if not results:
        refuse("None of these is compatible with the rest of the scenario.")
        return
    sentence(_verdict(results, undisturbed))
    _draw_over_all_reduces(results)
    chart(straggler_cost_figure(results, undisturbed), key="cost")
    chart(step_times_figure(results), key="distribution")
    if any(result.staleness["versions"]["max"] for result in results.values()):
        chart(staleness_by_kind_figure(results), key="staleness")
    else:
        st.caption("No gradient is stale: all are computed on the newest parameters.")
    best = by_rate(results)
    staleness = [result.staleness for result in best.values()]
    table(
        {
            **columns(compare_table([({"synchronisation": kind}, best[kind]) for kind in best])),
            "95th percentile": [human(each.step_time_s["p95"], TIME, 4) for each in best.values()],
            "clock gap, maximum": [str(each["clock_gap"]["max"]) for each in staleness],
            "updates in between, mean": [f"{each['versions']['mean']:.3g}" for each in staleness],
            "gradients dropped": [f"{each['dropped']:.1%}" for each in staleness],
        }
    )
