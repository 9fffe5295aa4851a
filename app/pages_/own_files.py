"""A user's files: models, traces, logs and topologies, and the scenario with them."""

from __future__ import annotations

import streamlit as st

from app import controls, sidebar, state
from app.charts import download
from app.headline import headline, sentence
from app.plain import plain
from app.uploads import KINDS, Imported, outcome
from app.waiting import run_in_background

_MOST_MB = 5


def draw() -> None:
    """Draw the page."""
    spec = sidebar.draw()
    st.caption(
        "Files are read within size limits, and deleted after. No code in them is run, and the "
        "scenario in the address does not change."
    )
    kind = controls.pick("kind of file", list(KINDS), "kind", next(iter(KINDS)))
    st.caption(KINDS[kind].gain)
    given = st.file_uploader("file", key=f"own file {kind}", max_upload_size=_MOST_MB)
    if given is None:
        return
    found = run_in_background("reading it", outcome, given.name, given.getvalue(), kind, spec)
    if found is not None:
        _draw_contents(found)


def _draw_contents(found: Imported) -> None:
    first, *others = found.lines
    sentence(f"{first}.")
    for line in others:
        st.markdown(f"- {plain(line)}")
    if found.text:
        words = f"download the result ({found.name})"
        download(words, found.text, found.name, "text/plain")
    if found.node_json is not None:
        st.button(
            "use this node in the scenario",
            on_click=state.change,
            args=("cluster.node", found.node_json),
            icon=":material/play_arrow:",
        )
    if found.result_before is not None and found.result_after is not None:
        st.markdown("**The scenario with this file**, and the change from the one without it")
        headline(found.result_after, found.result_before)
