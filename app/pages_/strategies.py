"""The strategies explained: timelines of the same computing, and paths over the loss surface."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app import controls, sidebar
from app.charts import chart
from app.headline import sentence
from app.lessons import timelines, weights
from app.plain import plain
from app.spec import Spec
from app.waiting import run_in_background
from dpsim.base.units import TIME, human
from dpsim.report.figures.lanes_figure import lanes_figure, window_figure
from dpsim.report.figures.paths_figure import paths_figure
from dpsim.studies.lanes import VIEWS, Lane

_SYNC, _OVERLAP, _SHARDS, _WEIGHTS = "synchronisation", "overlap", "sharding", "weight paths"
_PANEL = 310  # pixels: two fit beside the sidebar of a small screen
_SLOWER = ("1", "1.25", "1.5", "2", "3", "5", "10")
_CAPTIONS = {
    _SYNC: "Four workers with the scenario's model and network. Computing takes the same time with "
    "every strategy; they differ in which workers wait for which. Numbers count steps.",
    _OVERLAP: "One of four workers over two steps: which communication overlaps computing.",
    _SHARDS: "FSDP all-gathers a unit's weights before its passes, and reduce-scatters its "
    "gradients after the backward pass; without sharding, an all-reduce sums the gradients.",
}


def draw() -> None:
    """Draw the page."""
    spec = sidebar.draw()
    what = controls.switch("what", (_SYNC, _OVERLAP, _SHARDS, _WEIGHTS), "show", _SYNC)
    if what == _WEIGHTS:
        _draw_weights(spec)
    else:
        _draw_over_time(spec, what)


def _slower() -> str:
    return controls.slide("slow-down factor of worker 3", _SLOWER, "slower", "2")


def _draw_over_time(spec: Spec, what: str) -> None:
    view = VIEWS[what]
    st.caption(_CAPTIONS[what])
    slower = _slower() if what == _SYNC else "1"
    found = run_in_background("simulating each", timelines, spec, what, slower)
    if found is None:
        return
    sentence(_verdict(found.lanes))
    chart(lanes_figure(found.lanes, view.title), "lanes")
    if found.left_out:
        st.caption(f"Not possible with this workload: {plain(', '.join(found.left_out))}.")
    if found.windows:
        st.markdown("**The three parts of SSP's window**")
        steps = [str(step) for step in range(2, view.steps + 1)]
        clock = int(controls.slide("step", steps, "step", "5"))
        # The page counts steps from 1, the library from 0.
        chart(window_figure(found.windows[clock - 1]), "window")


def _verdict(found: Sequence[Lane]) -> str:
    """Return with which strategies workers finish first and last."""
    ends = {each.name: each.mean_end for each in found}
    first = min(ends, key=lambda name: ends[name])
    last = max(ends, key=lambda name: ends[name])
    text = f"Workers finish first with {first}, in {human(ends[first], TIME, 3)} on average"
    if first == last:
        return f"{text}."
    return f"{text}; last with {last}, in {human(ends[last], TIME, 3)}."


def _draw_weights(spec: Spec) -> None:
    st.caption(
        "A small model is trained in simulated time with each way to average models. Its weights "
        "are shown in the plane in which they move most, on lines of equal training loss."
    )
    found = run_in_background("training", weights, spec, _slower())
    if found is not None:
        with st.container(horizontal=True):
            for name, each in found.items():
                with st.container(width=_PANEL):
                    chart(paths_figure({name: each}), f"weights with {name}")
