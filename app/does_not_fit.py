"""A scenario that does not fit into GPU memory: its memory by part, and the remedies."""

from __future__ import annotations

import streamlit as st

from app import state
from app.answers import few_steps
from app.charts import chart
from app.headline import sentence
from app.spec import Spec
from app.waiting import scenario_of, simulated, why_not
from app.words import device_words, of_capacity
from dpsim.base.errors import DpsimError
from dpsim.base.units import DATA, human
from dpsim.engine import MemoryUse, Result, memory_use, remedy_values
from dpsim.report.figures.resource_figures import footprint_figure
from dpsim.studies.explain import as_options

_ALLOW = "run.allow_out_of_memory=true"
_FITTING = "as if it fitted"


def draw(spec: Spec) -> bool:
    """Draw the remedies if ``spec`` does not fit and is not simulated; return whether it did."""
    given = scenario_of(spec)
    use = memory_use(given)
    if use.fits or given.run.allow_out_of_memory:
        return False
    held, has = human(use.held.total, DATA, 3), human(use.capacity, DATA, 3)
    sentence(f"It does not fit: each {device_words(use.gpu)} has {has} and needs {held}.")
    draw_remedies(spec)
    return True


def draw_remedies(spec: Spec) -> None:
    """Draw the memory by part of a ``spec`` too large, and each remedy with its cost."""
    use = memory_use(scenario_of(spec))
    chart(footprint_figure(use), "memory")
    with st.container(border=True, key="ways to fit"):
        st.markdown("**What makes it fit, and what that costs** (click one to do it)")
        _draw_remedies(spec, use)
        if not scenario_of(spec).run.allow_out_of_memory:
            st.button(
                "simulate anyway",
                key="simulate anyway",
                icon=":material/play_arrow:",
                on_click=state.try_options,
                args=([_ALLOW],),
                help="Simulate even if the model does not fit in GPU memory.",
            )


def _draw_remedies(spec: Spec, use: MemoryUse) -> None:
    few, given = few_steps(spec), scenario_of(spec)
    remedies = {each.text: as_options(remedy_values(given, each)) for each in use.remedies()}
    tried = {words: few.with_options(options) for words, options in remedies.items()}
    # The remedies' costs are relative to the scenario as if it fitted.
    found = simulated({_FITTING: few.with_options([_ALLOW]), **tried}, "simulating each way")
    if found is None:
        return
    for number, (words, options) in enumerate(remedies.items()):
        result = found[words]
        st.button(
            _words(words, result, found[_FITTING], use),
            wrap=True,
            key=f"way {number}",
            icon=":material/build:",
            disabled=isinstance(result, DpsimError),
            on_click=state.try_options,
            args=(options,),
        )
    why_not(found, str)
    # No single change suffices: it takes more GPUs, or a split model.
    if not remedies:
        for line in use.advice():
            st.text(line)


def _words(
    words: str, result: Result | DpsimError, base: Result | DpsimError, use: MemoryUse
) -> str:
    """Return a remedy with its memory, and its cost compared with more memory."""
    if isinstance(result, DpsimError) or isinstance(base, DpsimError) or result.memory is None:
        return words
    held = of_capacity(result.memory.held.total, use.capacity)
    slower = base.throughput_samples_per_s / result.throughput_samples_per_s - 1
    return f"{words}: {held}, **{slower:+.1%}** time per sample"
