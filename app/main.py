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

PAGES = (
    (what_if, "What if", ":material/tune:"),
    (compare, "Compare", ":material/bar_chart:"),
    (algorithms, "See the algorithm", ":material/animation:"),
    (strategies, "See the strategies", ":material/view_timeline:"),
    (topology, "Topology", ":material/hub:"),
    (stragglers, "Stragglers and sync", ":material/hourglass_top:"),
    (convergence, "Convergence", ":material/trending_down:"),
    (questions, "Classic questions", ":material/quiz:"),
    (trust, "Trust", ":material/verified:"),
    (own_files, "Your own files", ":material/upload_file:"),
    (batches, "Batches", ":material/table_chart:"),
)

_ICON = Path(__file__).with_name("icon.svg")


def main() -> None:
    """Draw the page that is asked for, and put what it shows into the address."""
    st.set_page_config(
        page_title="dpsim", page_icon=_ICON.read_text(encoding="utf-8"), layout="wide"
    )
    st.html(f"<style>{STYLE}</style>")
    state.load()
    pages = [
        st.Page(
            page.draw,
            title=title,
            icon=icon,
            url_path=page.__name__.rpartition(".")[2],
            default=page is what_if,
        )
        for page, title, icon in PAGES
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
