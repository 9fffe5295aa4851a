"""The top of every page: the scenario's title with its changes, and its actions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from html import escape

import streamlit as st

from app import share, state, tray
from app.reading import scenario
from app.spec import View
from app.titles import origin, title
from app.words import changes, described
from dpsim.base.errors import DpsimError


def draw() -> None:
    """Draw the title, and below it the comparison."""
    view = state.current()
    with suppress(DpsimError):  # reported by the page
        words, about = title(scenario(view.spec)), described(scenario(view.spec))
        with st.container(horizontal=True, vertical_alignment="center", key="top"):
            st.html(
                f'<h1 class="dp-title">{escape(words)}<small>{escape(origin(view.spec))}</small>'
                f'</h1><p class="dp-about">{escape(about)}</p>'
                f'<p class="dp-about">{escape(_since(view))}</p>',
                width="stretch",
            )
            with st.container(horizontal=True, wrap=False, width="content"):
                tray.switch()
                share.draw(words)
    tray.draw()


def _since(view: View) -> str:
    """Return the last change, and all differences from the set-up."""
    spec, parts = view.spec, []
    start = replace(spec, changes=())
    # Where only one change was made, it is the last.
    for before, words in {start: "from the set-up", view.baseline: "last"}.items():
        with suppress(DpsimError):  # of an earlier state
            if before not in (None, spec):
                parts.append(f"Changed {words}: {changes(before, spec) or 'nothing'}.")
    return " ".join(parts)
