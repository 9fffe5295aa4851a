"""What this browser tab shows.

It is kept in the session and in the address, so that the address reproduces it.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from threading import Event
from time import monotonic

import streamlit as st

from app.fitted_times import with_fitted_times
from app.presets import FIRST
from app.spec import MOST_IN_ADDRESS, Query, Spec, View
from app.work import Tasks
from dpsim.base.errors import DpsimError

_APART = Event()

_VIEW, _BEFORE, _WRITTEN, _PROBLEM = "view", "view before", "address written", "address problem"
GLANCE = 0.7  # seconds: who changes the page sooner has not looked at its numbers
_SINCE = "shown since"
_ENTERED = "entered"  # whether a run is for a change on the page, or for itself


def load() -> None:
    """Take the view from the address where that is new.

    At the start, and when somebody went back or changed it.
    """
    entered = st.session_state.pop(_ENTERED, False)
    query = {key: st.query_params.get_all(key) for key in st.query_params}
    # Another page begins with an empty address: then the view stays what it was. A browser that
    # has been sent a new address may ask for more before it has taken that over: what its user
    # has changed meanwhile, or nobody has, is not undone by the old one.
    same = entered or not query or query == st.session_state.get(_WRITTEN)
    if _VIEW in st.session_state and same:
        return
    st.session_state[_PROBLEM] = ""
    before = st.session_state.get(_VIEW)
    try:
        view = View.from_query(query, Spec(FIRST))
    except DpsimError as error:
        view = View(Spec(FIRST))
        st.session_state[_PROBLEM] = f"{error}. Here is the first preset instead."
    # An address that somebody typed does not say what was shown before it.
    if before is not None and view.before is None:
        view = view.after(before)
    st.session_state[_VIEW] = view


def address_problem() -> str:
    """What is wrong with the address that was asked for; empty where nothing is."""
    return str(st.session_state.get(_PROBLEM, ""))


def write_address() -> bool:
    """Put the view into the address; False where it is too long for one, which is then empty."""
    query = current().to_query()
    length = 0
    for key, values in query.items():
        length += sum(len(key) + len(value) + 2 for value in values)  # with = and &
    fits = length <= MOST_IN_ADDRESS
    _write(query if fits else {})
    return fits


def _write(query: Query) -> None:
    # Remembered, so that the next run tells its own address from one that somebody typed.
    st.session_state[_WRITTEN] = query
    if {key: st.query_params.get_all(key) for key in st.query_params} != query:
        st.query_params.from_dict(query)


def current() -> View:
    """What is shown."""
    view: View = st.session_state[_VIEW]
    return view


def run_again() -> None:
    """Run the whole page anew to show what has come, with the view as it is."""
    st.session_state[_ENTERED] = True
    st.rerun()


def show(view: View) -> None:
    """Show ``view`` from the next run on."""
    st.session_state[_ENTERED] = True
    if view != current():
        before = current()
        st.session_state[_BEFORE] = before
        after = view.after(before)
        # Of keys pressed in a row the last is told against what stood before the first.
        if monotonic() - st.session_state.get(_SINCE, 0.0) < GLANCE and after.before is not None:
            after = replace(after, before=before.before)
        st.session_state[_SINCE] = monotonic()
        st.session_state[_VIEW] = after
        st.session_state[_PROBLEM] = ""


def show_spec(spec: Spec) -> None:
    """Show another scenario."""
    show(replace(current(), spec=spec))


def editable() -> Spec:
    """The scenario shown, to be changed.

    Compute times that were fitted to a measured step keep their factor (`with_fitted_times`).
    """
    spec = current().spec
    # What is wrong with it can be changed as well.
    with suppress(DpsimError):
        return with_fitted_times(spec)
    return spec


def change(path: str, value: str) -> None:
    """Set one value (YAML) of the scenario shown."""
    show_spec(editable().with_value(path, value))


def try_options(options: list[str]) -> None:
    """Set several values, ``key=value`` each."""
    show_spec(editable().with_options(options))


def undo() -> None:
    """Show what was shown before the last change."""
    show(st.session_state.get(_BEFORE, View(Spec(FIRST))))


def pin() -> None:
    """Make the scenario shown the baseline."""
    show(replace(current(), pinned=current().spec))


def unpin() -> None:
    """Compare with nothing."""
    show(replace(current(), pinned=None))


def choice(name: str, default: str) -> str:
    """A page's own choice."""
    return current().choices.get(name, default)


def choose(name: str, value: str) -> None:
    """Make a page's own choice."""
    show(replace(current(), choices={**current().choices, name: value}))


def answer_key(spec: Spec) -> Hashable:
    """By which the task that simulates ``spec`` is known."""
    return ("answer", spec)


@cache
def tasks() -> Tasks:
    """The work of all tabs, of this server."""
    return Tasks(apart=_APART.is_set())


def work_apart() -> None:
    """Have work done in processes apart, as a server does; called before `tasks`."""
    _APART.set()
