"""The first page: one scenario, its step time, its breakdown, and changes that would help."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from app import controls, does_not_fit, measured_steps, sidebar, state
from app.answers import Answer, explained, node_counts, scaled, traced
from app.charts import chart
from app.headline import headline, sentence
from app.plain import plain
from app.spec import Spec
from app.waiting import at_once, finished, let_draw, result_of, scenario_of, why_not
from app.words import nodes_words
from dpsim.engine import Result
from dpsim.report.figures.load_map_figure import load_map_figure
from dpsim.report.figures.scaling_figures import scaling_figure
from dpsim.report.figures.step_figures import breakdown_figure
from dpsim.report.figures.timeline_figure import called_by, timeline_figure
from dpsim.report.text.explanation import KIND_NAMES
from dpsim.report.text.tables import run_notes
from dpsim.studies.explain import Explanation, Turn, as_options, verdict

if TYPE_CHECKING:
    import plotly.graph_objects as go

_BEST = 3
_GAIN = -0.005  # of the time per sample: smaller gains would show as 0 %
_ONE, _THREE = "a typical worker", "slowest and fastest, too"


def draw() -> None:
    """Draw the page."""
    sidebar.draw()
    view = state.current()
    baseline = view.baseline
    scenario_of(view.spec)
    if does_not_fit.drawn(view.spec):
        return

    shown = result_of(view.spec)
    base = None if baseline is None else at_once(baseline)
    alike = base is None or base.scenario.workload.model == shown.scenario.workload.model
    headline(shown.result, None if base is None else base.result, alike=alike)
    sentence(verdict(shown.result))
    # Charts keep a browser busy for a second: draw the numbers above first.
    if let_draw():
        return

    chart(breakdown(shown, base), "breakdown")
    memory = shown.result.memory
    if memory is not None and not memory.fits:
        does_not_fit.draw_remedies(view.spec)
    with st.container(key="pictures"):
        left, right = st.columns([3, 2])
    with right:
        chart(load_map_figure(shown.links), "load map")
    limits = st.container(border=True, key="limits")
    _timeline(shown, view.spec)
    with st.expander("Assumptions, traffic and staleness"):
        for note in (*shown.result.notes, *run_notes(shown.result)):
            # Extra spaces align columns in a terminal.
            st.text(" ".join(note.split()))
    measured_steps.draw(view.spec)
    # Slower parts that must be simulated come last.
    with left:
        _scaling(view.spec, shown.result)
    with limits:  # last, since turning every knob takes long
        _limits(view.spec)


def breakdown(shown: Answer, base: Answer | None) -> go.Figure:
    """Return the breakdown of the step time, beside the baseline's."""
    results, names = [shown.result], ["now"]
    if base is not None:
        results, names = [base.result, shown.result], ["before", "now"]
    return breakdown_figure(results, names)


def _scaling(spec: Spec, own: Result) -> None:
    """Draw the throughput on fewer and more nodes than ``own``, the result of ``spec``."""
    if not node_counts(spec):
        st.caption("A cluster of several kinds of nodes has no one number of nodes to count up.")
        return
    found = finished("scaling", ("curve", spec), partial(scaled, spec, own), patience=0.7)
    if found is None:
        return
    results = [each for each in found.values() if isinstance(each, Result)]
    if results:
        chart(scaling_figure(results, own.workers), "scaling", height=330)
    why_not(found, nodes_words)


def _timeline(shown: Answer, spec: Spec) -> None:
    """Draw a worker's timeline, optionally of the slowest and fastest too, and the trace button."""
    whose = controls.switch("whose step", (_ONE, _THREE), "timeline", _ONE)
    workers = shown.workers if whose == _THREE else {"typical": shown.workers["typical"]}
    called = called_by(workers)
    intervals = [each for number in called for each in shown.intervals[number]]
    chart(timeline_figure(intervals, called), "timeline")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("Drag over a part to see it larger, double-click for all of it.")
        st.download_button(
            "trace for Perfetto",
            partial(traced, spec),
            "trace.json",
            "application/json",
            on_click="ignore",
            icon=":material/download:",
            help="The first steps of all workers and links: open the file at ui.perfetto.dev.",
        )


def _limits(spec: Spec) -> None:
    """Draw what limits the step, and the three changes that gain most."""
    st.markdown("**What limits it, and what would change it** (press one to try it)")
    # Every knob takes a run or more: show the bar at once, and keep the page usable meanwhile.
    found = finished(
        "turning every knob",
        ("explained", spec),
        partial(explained, spec),
        patience=0.05,
    )
    if found is None:
        return
    shares = {kind: seconds / found.path.seconds for kind, seconds in found.path.by_kind.items()}
    # Leave out gains that would show as 0 %.
    said = ", ".join(
        f"{share:.0%} {KIND_NAMES[kind]}" for kind, share in shares.items() if share >= 0.005
    )
    st.markdown(f"Critical path of a typical step: {said}.")
    turns = [
        turn for turn in found.turns if turn.change is not None and turn.change_per_sample <= _GAIN
    ][:_BEST]
    with st.container(horizontal=True, gap="small"):
        for number, turn in enumerate(turns):
            _turn(number, turn)
    if not turns:
        st.markdown("No single change makes it faster.")
    _others(found)


def _turn(number: int, turn: Turn) -> None:
    assert turn.change is not None
    words = f"{plain(turn.change.words)}: **{turn.change_per_sample:+.0%}** time per sample"
    st.button(
        words,
        wrap=True,
        key=f"try {number}",
        icon=":material/play_arrow:",
        on_click=state.try_options,
        args=(as_options(turn.change.values),),
    )


def _others(found: Explanation) -> None:
    opened = st.expander("every knob", key="every knob", on_change="rerun")
    if not opened.open:  # browsers take long to load tables
        return
    with opened:
        rows = [turn for turn in found.turns if turn.change is not None]
        st.dataframe(
            {
                "change": [turn.change.words for turn in rows if turn.change is not None],
                "time per sample": [f"{turn.change_per_sample:+.1%}" for turn in rows],
                "elasticity": [
                    "" if turn.elasticity is None else f"{turn.elasticity:+.2f}" for turn in rows
                ],
                "why not": [turn.why or "" for turn in rows],
            },
            hide_index=True,
            height="content",
        )
