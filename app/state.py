"""The state of this browser tab.

It is kept in the session and in the address, so that the address reproduces it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache, wraps
from time import monotonic
from typing import ParamSpec

import streamlit as st

from app.presets import FIRST
from app.reading import with_fitted_times
from app.spec import Query, Spec, View
from app.work import Tasks
from dpsim.base.errors import DpsimError

P = ParamSpec("P")

_VIEW, _WRITTEN, _PROBLEM = "view", "address written", "address problem"
GLANCE = 0.7  # seconds: a user who changes the page sooner has not looked at its numbers
_SHOWN_SINCE_KEY = "shown since"
_NEXT_PAGE_KEY = "next page"
_SET_UPS = "set-ups shown before"
_ENTERED_KEY = "entered"  # whether a run follows a change on the page


def load() -> None:
    """Take the view from the address where that is new.

    This is at the start, and when the user navigated or edited the address.
    """
    entered = st.session_state.pop(_ENTERED_KEY, False)
    query = _address()
    # Another page begins with an empty address: then keep the view. A browser that was sent a new
    # address may make requests before it has applied it: the old address must not undo the user's
    # changes meanwhile.
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
    # An address typed by the user does not tell what was shown before.
    if before is not None and view.before is None:
        view = view.after(before)
    st.session_state[_VIEW] = view


def address_problem() -> str:
    """Return what is wrong with the requested address; empty if nothing."""
    return str(st.session_state.get(_PROBLEM, ""))


def write_address() -> bool:
    """Write the view into the address; if it is too long, empty the address and return False."""
    fits = current().address() is not None
    query = current().to_query() if fits else {}
    # Stored, so that the next run can distinguish this address from one typed by the user.
    st.session_state[_WRITTEN] = query
    if _address() != query:
        st.query_params.from_dict(query)
    return fits


def _address() -> Query:
    return {key: st.query_params.get_all(key) for key in st.query_params}


def current() -> View:
    """Return the current view."""
    view: View = st.session_state[_VIEW]
    return view


def run_again() -> None:
    """Rerun the whole page to show new results, with the same view."""
    st.session_state[_ENTERED_KEY] = True
    st.rerun()


def fragment(draw: Callable[P, None]) -> Callable[P, None]:
    """Make ``draw`` a fragment, which reruns without the rest of the page."""

    @st.fragment
    def part(shown: Spec, *args: P.args, **named: P.kwargs) -> None:
        if shown != current().spec:  # changed in this fragment
            run_again()
        draw(*args, **named)
        # What the router does when all of the page runs.
        st.session_state.pop(_ENTERED_KEY, None)
        write_address()

    return wraps(draw)(lambda *args, **named: part(current().spec, *args, **named))


def show(view: View) -> None:
    """Show ``view`` from the next run on."""
    st.session_state[_ENTERED_KEY] = True
    if view != current():
        before = current()
        after = view.after(before)
        # After several quick changes, compare with the state before the first.
        if (
            monotonic() - st.session_state.get(_SHOWN_SINCE_KEY, 0.0) < GLANCE
            and after.before is not None
        ):
            after = replace(after, before=before.before)
        st.session_state[_SHOWN_SINCE_KEY] = monotonic()
        if replace(view.spec, changes=()) != replace(before.spec, changes=()):
            st.session_state[_SET_UPS] = set_ups() + 1
        st.session_state[_VIEW] = after
        st.session_state[_PROBLEM] = ""


def set_ups() -> int:
    """Return how many set-ups this tab has shown before the present one."""
    return int(st.session_state.get(_SET_UPS, 0))


def show_spec(spec: Spec) -> None:
    """Show another scenario."""
    show(replace(current(), spec=spec))


def editable() -> Spec:
    """Return the shown scenario, for editing.

    Compute times that were fitted to a measured step keep their factor (`with_fitted_times`).
    """
    spec = current().spec
    # An invalid scenario can be edited as well.
    with suppress(DpsimError):
        return with_fitted_times(spec)
    return spec


def change(path: str, value: str) -> None:
    """Set one value (YAML) of the scenario shown."""
    show_spec(editable().with_value(path, value))


def try_options(options: list[str]) -> None:
    """Set several values, ``key=value`` each."""
    show_spec(editable().with_options(options))


def compare(*specs: Spec) -> None:
    """Compare ``specs`` with one another."""
    show(replace(current(), compared=specs))


def choice(name: str, default: str) -> str:
    """Return the value of a page's option."""
    return current().choices.get(name, default)


def choose(name: str, given: str | list[str]) -> None:
    """Set a page's option, to one value or several."""
    value = ",".join(given) if isinstance(given, list) else str(given)
    show(replace(current(), choices={**current().choices, name: value}))


def compare_values(path: str) -> None:
    """Go to the page that compares values of the knob at ``path``."""
    others = {key: value for key, value in current().choices.items() if key != "compare"}
    show(replace(current(), choices={**others, "vary": path}))
    st.session_state[_NEXT_PAGE_KEY] = "compare"


def next_page() -> str | None:
    """Return the page to go to, once."""
    page: str | None = st.session_state.pop(_NEXT_PAGE_KEY, None)
    return page


@cache
def tasks() -> Tasks:
    """Return the tasks of all tabs of this server."""
    return Tasks()
