"""A scenario that does not fit into GPU memory: its memory by part, and the remedies."""

from __future__ import annotations

from functools import partial

import streamlit as st

from app import state
from app.answers import Way, memory_of, ways_to_fit
from app.charts import chart
from app.headline import sentence
from app.plain import plain
from app.spec import Spec
from app.waiting import finished, scenario_of
from app.words import device_words, of_capacity, reason_words
from dpsim.base.units import DATA, human
from dpsim.engine import MemoryUse
from dpsim.report.figures.resource_figures import footprint_figure

_ALLOW = "run.allow_out_of_memory=true"


def drawn(spec: Spec) -> bool:
    """Draw the remedies where ``spec`` does not fit and is not simulated; return whether drawn."""
    given, use = scenario_of(spec), memory_of(spec)
    if use.fits or given.run.allow_out_of_memory:
        return False
    held, has = human(use.held.total, DATA, 3), human(use.capacity, DATA, 3)
    sentence(f"It does not fit: each {device_words(use.gpu)} has {has} and would hold {held}.")
    draw_remedies(spec)
    return True


def draw_remedies(spec: Spec) -> None:
    """Draw the memory by part of a ``spec`` too large, and each remedy with its cost."""
    use = memory_of(spec)
    chart(footprint_figure(use), "memory")
    with st.container(border=True, key="ways to fit"):
        st.markdown("**What makes it fit, and what that costs** (press one to do it)")
        _ways(spec, use)
        if not scenario_of(spec).run.allow_out_of_memory:
            st.button(
                "simulate it all the same",
                key="all the same",
                icon=":material/play_arrow:",
                on_click=state.try_options,
                args=([_ALLOW],),
                help="As if the GPUs had the memory.",
            )


def _ways(spec: Spec, use: MemoryUse) -> None:
    ways = finished("simulating each way", ("ways", spec), partial(ways_to_fit, spec))
    for number, way in enumerate(ways or ()):
        st.button(
            _words(way, use),
            wrap=True,
            key=f"way {number}",
            icon=":material/build:",
            disabled=bool(way.why_not),
            on_click=state.try_options,
            args=(list(way.options),),
        )
        if way.why_not:
            st.caption(plain(reason_words(way.why_not)))
    # No single change suffices: it takes more GPUs, or a split model.
    if ways is not None and not ways:
        for line in use.advice():
            st.text(line)


def _words(way: Way, use: MemoryUse) -> str:
    """Return a remedy with its memory, and its cost compared with more memory."""
    if way.why_not:
        return way.words
    held = of_capacity(way.held, use.capacity)
    return f"{way.words}: {held}, **{way.slower:+.1%}** time per sample"
