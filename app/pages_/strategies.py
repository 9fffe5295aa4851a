"""The strategies explained: how workers share the same computing, over time and over the loss."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app import controls, sidebar
from app.charts import chart
from app.headline import sentence
from app.lessons import lanes, read_windows, weights
from app.plain import plain
from app.spec import Spec
from app.waiting import finished, refuse, scenario_of
from dpsim.base.units import TIME, human
from dpsim.report.figures.lanes_figure import lanes_figure, window_figure
from dpsim.report.figures.paths_figure import paths_figure
from dpsim.studies.lanes import FOUR, VIEWS, Lane, is_of_one_kind, slowed

_SYNC, _OVERLAP, _SHARDS, _WEIGHTS = "synchronisation", "overlap", "sharding", "ways of the weights"
_SLOWER = ("1", "1.25", "1.5", "2", "3", "5", "10")
_CAPTIONS = {
    _SYNC: "Four workers of the scenario's model and network. Each worker computes as long in a "
    "step whatever the strategy: what differs is who waits for whom. The numbers are those of "
    "steps.",
    _OVERLAP: "One of four workers over two steps: what is sent while it still computes.",
    _SHARDS: "FSDP gathers a unit's weights before it is computed with, and scatters the sums of "
    "its gradients after; an all-reduce does both at the end.",
}
# A model so small that its weights fit in a plane, with different starts.
_SMALL = {
    "replay.model": "softmax",
    "replay.own_start": "true",
    "replay.batch": "4",
    "replay.learning_rate": "0.3",
    "replay.steps": "120",
    "replay.points": "60",
}


def draw() -> None:
    """Draw the page."""
    given = sidebar.draw()
    what = controls.switch("what", (_SYNC, _OVERLAP, _SHARDS, _WEIGHTS), "show", _SYNC)
    spec = _of_four(given)
    if what == _WEIGHTS:
        _weights(spec)
    else:
        _over_time(spec, what)


def _of_four(spec: Spec) -> Spec:
    """Return the scenario's model and network with four workers, one per node, undisturbed."""
    if not is_of_one_kind(scenario_of(spec)):
        refuse("this page shows four workers of one kind: the scenario must have one kind of nodes")
        st.stop()
    for path, value in FOUR.items():
        spec = spec.with_value(path, value)
    return spec


def _with_a_slow_one(spec: Spec) -> Spec:
    factor = controls.slide("compute time of worker 3, times the others'", _SLOWER, "slower", "2")
    return spec.with_value("disturbance.slow", slowed(factor))


def _over_time(spec: Spec, what: str) -> None:
    view = VIEWS[what]
    st.caption(_CAPTIONS[what])
    spec = spec.with_value("run.steps", str(view.steps))
    if what != _SYNC:
        _lanes(spec, what)
        return
    spec = _with_a_slow_one(spec)
    if not _lanes(spec, what):
        return
    st.markdown("**The three parts of SSP's window**")
    steps = [str(step) for step in range(2, view.steps + 1)]
    clock = int(controls.slide("step", steps, "step", "5"))
    found = finished("looking at what is read", read_windows, spec)
    if found is not None:
        # The page counts steps from 1, the library from 0.
        chart(window_figure(found[clock - 1]), "window")


def _lanes(spec: Spec, what: str) -> bool:
    """Draw each strategy of a view; return whether there was anything to draw."""
    view = VIEWS[what]
    found = finished("simulating each", lanes, spec, what)
    if found is None:
        return False
    sentence(_verdict(found))
    chart(lanes_figure(found, view.title), "lanes")
    left_out = [name for name in view.strategies if name not in {each.name for each in found}]
    if left_out:
        st.caption(f"Not with this workload: {plain(', '.join(left_out))}.")
    return True


def _verdict(found: Sequence[Lane]) -> str:
    """Return with which strategies workers finish first and last."""
    ends = {each.name: each.mean_end for each in found}
    first = min(ends, key=lambda name: ends[name])
    last = max(ends, key=lambda name: ends[name])
    said = f"Workers are done first with {first}, in {human(ends[first], TIME, 3)} in the mean"
    if first == last:
        return f"{said}."
    return f"{said}; last with {last}, in {human(ends[last], TIME, 3)}."


def _weights(spec: Spec) -> None:
    st.caption(
        "A small model trained for real in the simulated time of each way to average models. Its "
        "weights are shown in the plane in which they move most, on lines of equal training loss."
    )
    spec = _with_a_slow_one(spec)
    for path, value in _SMALL.items():
        spec = spec.with_value(path, value)
    found = finished("training", weights, spec)
    if found is not None:
        for place, (name, each) in zip(st.columns(len(found)), found.items(), strict=True):
            with place:
                chart(paths_figure({name: each}), f"weights {name}", alt=f"weights with {name}")
