"""The comparison: a few scenarios as the columns of one table, in the address of every page."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from html import escape
from itertools import chain

import streamlit as st

from app import state
from app.headline import Number, change, numbers, of_memory
from app.reading import scenario
from app.spec import MOST_COMPARED, Spec
from app.titles import title
from app.waiting import simulated, why_not
from app.words import differing
from dpsim.base.errors import DpsimError
from dpsim.engine import Result, memory_use


def switch() -> None:
    """Draw the button that puts the scenario shown into the comparison, or takes it out."""
    spec, compared = state.current().spec, state.current().compared
    others = tuple(each for each in compared if each != spec)
    is_in = others != compared
    st.button(
        "Remove from comparison" if is_in else "Add to comparison",
        on_click=state.compare,
        args=others if is_in else (*compared, spec),
        disabled=not is_in and len(compared) == MOST_COMPARED,
        help=f"Up to {MOST_COMPARED} scenarios as columns of one table.",
        icon=":material/compare_arrows:",
    )


def draw() -> None:
    """Draw the compared scenarios, if there are any."""
    compared = {str(number): spec for number, spec in enumerate(state.current().compared, 1)}
    if not compared:
        return
    words = f"Comparison ({len(compared)})"
    with st.expander(words, expanded=True, key="comparison", on_change="rerun") as opened:
        if not opened.open:
            return
        found = simulated(compared, "simulating the comparison")
        if found is not None:
            st.html(_table(compared, found))
            why_not(found, "scenario {}".format)
        with st.container(horizontal=True, gap="small"):
            for number, spec in compared.items():
                st.button(f"show {number}", on_click=state.show_spec, args=(spec,))
            st.button("remove all", on_click=state.compare, icon=":material/close:")


def _table(compared: Mapping[str, Spec], found: Mapping[str, Result | DpsimError]) -> str:
    """Return the fields that differ above the numbers, each with its change from the first."""
    heads, specs, columns = [], [], []
    for place, spec in compared.items():
        with suppress(DpsimError):  # reported below the table
            head, column = title(scenario(spec)), _numbers(spec, found[place])
            heads.append(f"{place}. {head}")
            specs.append(spec)
            columns.append(column)
    rows = [(field, [escape(value) for value in values]) for field, values in differing(specs)]
    models = [scenario(spec).workload.model for spec in specs]
    for name in dict.fromkeys(chain(*columns)):
        first = columns[0].get(name)
        cells = [
            _cell(column.get(name), first, model == models[0])
            for column, model in zip(columns, models, strict=True)
        ]
        rows.append((name, cells))
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{"</td><td>".join(cells)}</td></tr>'
        for name, cells in rows
    )
    # A region that scrolls must be reachable by the keyboard.
    return (
        '<div class="dp-compared" role="region" aria-label="comparison" tabindex="0">'
        f"<table><tr><td></td>{top}</tr>{body}</table></div>"
    )


_FITS = {None: "not known", True: "yes", False: "no"}


def _numbers(spec: Spec, result: Result | DpsimError) -> dict[str, Number]:
    """Return the numbers of a scenario by name; only the memory where it was not simulated."""
    use = result.memory if isinstance(result, Result) else memory_use(scenario(spec))
    known = [*numbers(result)] if isinstance(result, Result) else [of_memory(use)]
    if use is not None:
        fits = use.warnings[0].partition(":")[0] if use.warnings else _FITS[use.to_json()["fits"]]
        known.append(Number("fits", fits, None, False, ""))
    return {number.name: number for number in known}


def _cell(number: Number | None, first: Number | None, alike: bool) -> str:
    if number is None:
        return ""
    text = escape(number.text)
    if number.interval is not None:
        within = f"{number.interval.confidence:.0%}: {number.within}"
        text += f'<div class="dp-note">{within}</div>'
    return text if number is first else text + change(number, first, alike, since="")
