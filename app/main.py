"""The router: the list of pages. `dpsim app` starts it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import streamlit as st

from app import state, top, waiting
from app.look import STYLE
from app.pages_ import (
    algorithms,
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

# Each entry of the top row with its pages. Clicking an entry opens its first page.
PAGES = {
    "Predict": {what_if: "A step", topology: "Topology", own_files: "Your own files"},
    "Compare": {compare: "Side by side"},
    "Synchronise": {
        stragglers: "Stragglers",
        strategies: "Strategies over time",
        convergence: "Convergence",
    },
    "Learn": {algorithms: "Algorithms", questions: "Classic questions"},
    "Trust": {trust: "Accuracy"},
}

_CURRENT_ENTRY_CSS = "background: var(--dp-border); font-weight: 600"
_ICON = Path(__file__).with_name("icon.svg")


def main() -> None:
    """Draw the requested page, and write its state into the address."""
    st.set_page_config(
        page_title="dpsim", page_icon=_ICON.read_text(encoding="utf-8"), layout="wide"
    )
    st.html(f"<style>{STYLE}</style>")
    # Before the pages, whose widgets all show the view.
    state.load()
    pages = {part: _page(part, name) for name, parts in PAGES.items() for part in parts}
    chosen = st.navigation(list(pages.values()), position="top")
    if name := state.next_page():
        st.switch_page(next(page for page in pages.values() if page.url_path == name))
    if not state.write_address():
        st.warning(
            "This scenario is too long for an address: a link to this page does not reproduce it. "
            "Download it instead."
        )
    if problem := state.address_problem():
        st.warning(plain(problem))
    # First drop this session's tasks for other pages: this page's work would queue behind them.
    waiting.leave_others(chosen.url_path)
    _draw_page_links(pages, chosen)
    top.draw()
    chosen.run()


def _page(part: ModuleType, name: str) -> st.Page:
    """Return a page at its own address; the top row shows each group's first page."""
    first, *_ = PAGES[name]
    return st.Page(
        part.draw,
        title=name if part is first else PAGES[name][part],
        url_path=part.__name__.rpartition(".")[2],
        default=part is what_if,
        visibility="visible" if part is first else "hidden",
    )


def _draw_page_links(pages: Mapping[ModuleType, st.Page], chosen: st.Page) -> None:
    """Draw links to the parts of the current page, and mark its entry in the top row."""
    (shown,) = [part for part, page in pages.items() if page == chosen]
    (parts,) = [parts for parts in PAGES.values() if shown in parts]
    # Streamlit marks only visible pages.
    entry = f'a[href$="/{pages[next(iter(parts))].url_path}"]'
    st.html(f"<style>:is(header, section) {entry} {{{_CURRENT_ENTRY_CSS}}}</style>")
    if len(parts) > 1:
        with st.container(horizontal=True, gap="small", key="parts"):
            for part, words in parts.items():
                st.page_link(pages[part], label=words)


# Streamlit runs this file as a script at every rerun.
main()
