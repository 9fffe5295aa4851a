"""The first page: one scenario, its step time, its breakdown, and changes that would help."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import streamlit as st

from app import controls, does_not_fit, measured_steps, sidebar, state
from app.answers import PATH, Answer, explained, node_counts, scaled, traced
from app.charts import chart, download, table
from app.headline import headline, sentence
from app.plain import plain
from app.spec import Spec
from app.waiting import answer_if_ready, in_fragment, let_draw, result_of, scenario_of, why_not
from app.words import nodes_words
from dpsim.engine import Result
from dpsim.report.figures.load_map_figure import load_map_figure
from dpsim.report.figures.scaling_figures import scaling_figure
from dpsim.report.figures.step_figures import breakdown_figure
from dpsim.report.figures.timeline_figure import called_by, timeline_figure
from dpsim.report.text.explanation import KIND_NAMES
from dpsim.report.text.tables import run_notes
from dpsim.studies.explain import verdict

_BEST = 3
_GAIN = -0.005  # of the time per sample: smaller gains would show as 0 %
_ONE, _THREE = "a typical worker", "slowest and fastest, too"


def draw() -> None:
    """Draw the page."""
    spec = sidebar.draw()
    if does_not_fit.draw(spec):
        return

    shown = result_of(spec)
    baseline = state.current().baseline
    base = None if baseline is None else answer_if_ready(baseline)
    headline(shown.result, None if base is None else base.result)
    sentence(verdict(shown.result))
    # Charts keep a browser busy for a second: draw the numbers above first.
    if let_draw():
        return

    named = {"now": shown} if base is None else {"before": base, "now": shown}
    chart(breakdown_figure([each.result for each in named.values()], list(named)), "breakdown")
    memory = shown.result.memory
    if memory is not None and not memory.fits:
        does_not_fit.draw_remedies(spec)
    with st.container(horizontal=True):
        left, right = st.container(key="curve"), st.container(key="load")
    with right:
        chart(load_map_figure(shown.links), "load map")
    limits = st.container(border=True, key="limits")
    _draw_timeline(shown, spec)
    with st.expander("Assumptions, traffic and staleness"):
        for note in (*shown.result.notes, *run_notes(shown.result)):
            # Extra spaces align columns in a terminal.
            st.text(" ".join(note.split()))
    measured_steps.draw(spec)
    # Slower parts that must be simulated come last.
    with left:
        _draw_scaling(spec, shown.result)
    with limits:
        _draw_limits(spec)


@state.fragment
def _draw_scaling(spec: Spec, result: Result) -> None:
    """Draw the throughput on fewer and more nodes than in ``result``, that of ``spec``."""
    if not node_counts(spec):
        st.caption("Scaling is shown for clusters of one kind of node only.")
        return
    found = in_fragment("scaling", scaled, spec, patience=0.7)
    if found is None:
        return
    # The scenario's result is known, with more steps than the others.
    results = [result, *(each for each in found.values() if isinstance(each, Result))]
    key = f"scaling {result.workers}"  # another chart for each count, without the last click
    clicked = partial(_use_count, key, result.workers // scenario_of(spec).cluster.nodes)
    chart(scaling_figure(results, result.workers), key, height=330, clicked=clicked)
    st.caption("Click a point to use its number of GPUs.")
    why_not(found, nodes_words)


def _use_count(key: str, per_node: int) -> None:
    for point in st.session_state[key].selection.points:  # none where a point is clicked again
        state.change("cluster.nodes", str(int(point["x"]) // per_node))


@state.fragment
def _draw_timeline(shown: Answer, spec: Spec) -> None:
    """Draw a worker's timeline, optionally of the slowest and fastest too, and the trace button."""
    whose = controls.switch("whose step", (_ONE, _THREE), "timeline", _ONE)
    workers = shown.workers if whose == _THREE else {"typical": shown.workers["typical"]}
    called = called_by(workers)
    intervals = [each for number in called for each in shown.intervals[number]]
    chart(timeline_figure(intervals, called), "timeline")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("Drag to zoom in, double-click to zoom out.")
        about = "The first steps of all workers and links: open the file at ui.perfetto.dev."
        trace = partial(traced, spec)
        download("trace for Perfetto", trace, "trace.json", "application/json", about)


@state.fragment
def _draw_limits(spec: Spec) -> None:
    """Draw what limits the step, and the three changes that gain most, as soon as each is known."""
    st.markdown("**What limits it, and what would change it** (click one to try it)")
    # Show the bar at once: every knob takes a run or more.
    found = in_fragment("turning knobs", explained, spec, patience=0.05, so_far=_draw_found)
    if found is None:
        return
    if not _draw_found(found):
        st.markdown("No single change makes it faster.")
    _draw_other_turns([turn for name, turn in found.items() if name != PATH and turn["change"]])


def _draw_found(found: Mapping[str, Any]) -> bool:
    """Draw the critical path and the best of the knobs that are ``found``; return whether any."""
    shares = found.get(PATH, {})
    # Leave out gains that would show as 0 %.
    shown = [f"{share:.0%} {KIND_NAMES[kind]}" for kind, share in shares.items() if share >= 0.005]
    if shown:
        st.markdown(f"Critical path of a typical step: {', '.join(shown)}.")
    turns = [turn for name, turn in found.items() if name != PATH and turn["change"]]
    helpful = [turn for turn in turns if turn["change_per_sample"] <= _GAIN]
    helpful.sort(key=lambda turn: float(turn["change_per_sample"]))
    with st.container(horizontal=True, gap="small"):
        for number, turn in enumerate(helpful[:_BEST]):
            st.button(
                f"{plain(turn['change'])}: **{turn['change_per_sample']:+.0%}** time per sample",
                wrap=True,
                key=f"try {number}",
                icon=":material/play_arrow:",
                on_click=state.try_options,
                args=(turn["set"],),
            )
    return bool(helpful)


def _draw_other_turns(turns: list[Mapping[str, Any]]) -> None:
    opened = st.expander("every knob", key="every knob", on_change="rerun")
    if not opened.open:  # browsers take long to load tables
        return
    with opened:
        table(
            {
                "change": [turn["change"] for turn in turns],
                "time per sample": [f"{turn['change_per_sample']:+.1%}" for turn in turns],
                "elasticity": [
                    "" if turn["elasticity"] is None else f"{turn['elasticity']:+.2f}"
                    for turn in turns
                ],
                "why not": [turn["why"] or "" for turn in turns],
            }
        )
