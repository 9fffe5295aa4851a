"""The router: which pages there are. `dpsim app` starts it."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app import state, waiting
from app.look import STYLE
from app.pages_ import (
    algorithms,
    batches,
    compare,
    convergence,
    own_files,
    questions,
    stragglers,
    strategies,
    topology,
    trust,
    what_if,
)
from app.plain import plain

# Without icons, for which the row on top would have to hide some of them.
PAGES = (
    (what_if, "What if"),
    (compare, "Compare"),
    (algorithms, "See the algorithm"),
    (strategies, "See the strategies"),
    (topology, "Topology"),
    (stragglers, "Stragglers"),
    (convergence, "Convergence"),
    (questions, "Classic questions"),
    (trust, "Trust"),
    (own_files, "Your own files"),
    (batches, "Batches"),
)

_ICON = Path(__file__).with_name("icon.svg")


def main() -> None:
    """Draw the page that is asked for, and put what it shows into the address."""
    st.set_page_config(
        page_title="dpsim", page_icon=_ICON.read_text(encoding="utf-8"), layout="wide"
    )
    st.html(f"<style>{STYLE}</style>")
    # Before the pages, whose widgets all show the view.
    state.load()
    pages = [
        st.Page(
            page.draw,
            title=title,
            url_path=page.__name__.rpartition(".")[2],
            default=page is what_if,
        )
        for page, title in PAGES
    ]
    chosen = st.navigation(pages, position="top")
    if not state.write_address():
        st.warning(
            "This scenario is too long for an address: a link to this page does not reproduce it. "
            "Download it instead."
        )
    if problem := state.address_problem():
        st.warning(plain(problem))
    # Before the page begins work of its own, which would queue behind it.
    waiting.leave_others(chosen.url_path)
    chosen.run()


main()
