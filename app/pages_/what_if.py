"""What if: one scenario, its step time and where it goes, and what would change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from app import sidebar, state
from app.answers import Answer, answer, explained
from app.charts import chart
from app.headline import headline
from app.spec import Spec
from app.waiting import finished, let_draw, result_of
from dpsim.report.figures.step_figures import breakdown_figure, timeline_figure
from dpsim.report.text.explanation import KIND_NAMES
from dpsim.report.text.tables import run_notes
from dpsim.studies.explain import Explanation, Turn, as_options

if TYPE_CHECKING:
    import plotly.graph_objects as go

_BEST = 3
_GAIN = -0.005
_HEIGHT, _BAR = 210, 34  # pixels


def draw() -> None:
    """Draw the page."""
    sidebar.draw()
    view = state.current()
    shown = result_of(view.spec)
    base = None if view.pinned is None else _baseline(view.pinned)
    _title(shown, view.pinned)
    headline(shown.result, None if base is None else base.result)
    if let_draw():
        return
    breakdown, timeline = figures(shown, base)
    chart(breakdown, key="breakdown")
    limits = st.container(border=True, key="limits")
    chart(timeline, key="timeline")
    with st.expander("Assumptions, traffic and staleness"):
        for note in (*shown.result.notes, *run_notes(shown.result)):
            st.markdown(f"- {' '.join(note.split())}")
    with limits:  # last, since turning every knob takes long
        _limits(view.spec)


def figures(shown: Answer, base: Answer | None) -> tuple[go.Figure, go.Figure]:
    """Where the time goes, beside the baseline's, and what each worker does when."""
    results, names = (
        ([shown.result], ["this"])
        if base is None
        else ([base.result, shown.result], ["baseline", "this"])
    )
    breakdown = breakdown_figure(results, names).update_layout(height=_HEIGHT + _BAR * len(results))
    return breakdown, timeline_figure(shown.intervals)


def _baseline(pinned: Spec) -> Answer | None:
    return finished(
        "simulating the baseline", ("baseline", pinned), lambda report: answer(pinned, report)
    )


def _title(shown: Answer, pinned: Spec | None) -> None:
    with st.container(
        horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"
    ):
        st.subheader(shown.result.name, anchor=False, width="content")
        if pinned is None:
            st.button(
                "pin as baseline",
                on_click=state.pin,
                icon=":material/push_pin:",
                help="Every number then shows its change.",
            )
        else:
            st.button("unpin the baseline", on_click=state.unpin, icon=":material/keep_off:")
    gpus = f"{shown.result.workers:,} worker{'s' if shown.result.workers > 1 else ''}"
    st.caption(
        f"{gpus}, {shown.result.batch_per_worker:,} samples each a step; seed {shown.result.seed}"
    )


def _limits(spec: Spec) -> None:
    """What limits the step, and the three changes that gain most."""
    st.markdown("**What limits it, and what would change it** (press one to try it)")
    found = finished(
        "turning every knob",
        ("explained", spec),
        lambda report: explained(spec, report),
        patience=0.05,
    )
    if found is None:
        return
    shares = {kind: seconds / found.path.seconds for kind, seconds in found.path.by_kind.items()}
    said = ", ".join(
        f"{share:.0%} {KIND_NAMES[kind]}" for kind, share in shares.items() if share >= 0.005
    )
    st.markdown(f"Critical path of a typical step: {said}.")
    turns = [
        turn for turn in found.turns if turn.change is not None and turn.change_per_sample <= _GAIN
    ][:_BEST]
    for number, turn in enumerate(turns):
        _turn(number, turn)
    if not turns:
        st.markdown("No single change makes it faster.")
    _others(found)


def _turn(number: int, turn: Turn) -> None:
    assert turn.change is not None
    words = f"{turn.change.words}: **{turn.change_per_sample:+.0%}** time per sample"
    st.button(
        words,
        key=f"try {number}",
        icon=":material/play_arrow:",
        on_click=_try,
        args=(as_options(turn.change.values),),
    )


def _try(options: list[str]) -> None:
    spec = state.current().spec
    for option in options:
        path, _, value = option.partition("=")
        spec = spec.with_value(path, value)
    state.show_spec(spec)


def _others(found: Explanation) -> None:
    opened = st.expander("every knob", key="every knob", on_change="rerun")
    if not opened.open:  # tables take a browser long to load
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
