"""Waiting for work.

The value where it comes at once, else how far it is with a way to cancel it; and what went wrong,
in words.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeVar, cast
from uuid import uuid4

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app import limits, state
from app.answers import Answer, answer, few_steps
from app.plain import plain
from app.reading import scenario
from app.spec import Spec
from app.words import kind_words, reason_words
from app.work import CancelledError, Report, Task
from dpsim.base.errors import DpsimError
from dpsim.scenario import Scenario

T = TypeVar("T")

PATIENCE = 1.0  # seconds until progress is shown instead
DRAWN = "drawn before"  # of a session: whether its browser has drawn a page
_WAITED, _SHOWN, _NAME = "waited for", "waited where", "session"


def result_of(spec: Spec) -> Answer:
    """The answer to ``spec``.

    Ends the page's run, with progress or what is wrong, where there is none yet.
    """
    scenario_of(spec)
    found = finished("simulating steps", *_asked(spec))
    if found is None:
        st.stop()
    return found


def in_advance(spec: Spec) -> Answer:
    """The answer to ``spec``, kept for the session that will ask for it. Raises DpsimError."""
    return state.tasks().start(*_asked(spec)).value()


def _asked(spec: Spec) -> tuple[Hashable, Callable[[Report], Answer]]:
    return state.answer_key(spec), partial(answer, spec)


def scenario_of(spec: Spec) -> Scenario:
    """The scenario of ``spec``; ends the page's run, with what is wrong, where it is none."""
    try:
        return scenario(spec)
    except DpsimError as error:
        refuse(str(error))
        st.stop()


def finished(
    what: str, key: Hashable, function: Callable[[Report], T], patience: float | None = None
) -> T | None:
    """What ``function`` came to, None where there is nothing yet, ``patience`` s (1) from now.

    That is while it is at work (its progress is drawn), and where it was cancelled or went wrong
    (which is said).

    A session waits for one task of a kind (``key``'s first part) at a time: what it waited for
    before is left. What has a ``patience`` of its own stands beside what was asked for, and begins
    after it.
    """
    task = _only(key, function, can_wait=patience is not None)
    if not task.wait(PATIENCE if patience is None else patience):
        _progress(task, what)
        return None
    try:
        return task.value()
    except CancelledError:
        st.info("Cancelled.")
        st.button("start again", key=f"again {what}", on_click=_forget, args=(key,))
    except DpsimError as error:
        refuse(str(error))
    return None


def at_once(spec: Spec) -> Answer | None:
    """The answer to ``spec`` if there is one within a moment; nothing is drawn.

    What was shown before is known: it is looked up, and simulated again only where it was dropped.
    """
    task = state.tasks().known(state.answer_key(spec))
    # Of a kind of its own: to wait for a second answer would leave the one that is shown.
    if task is None or not task.ended:
        task = _only(("baseline", spec), partial(answer, spec))
    if not task.wait(PATIENCE):
        return None
    try:
        return cast("Answer", task.value())
    except (CancelledError, DpsimError):
        return None


def let_draw() -> bool:
    """Whether the browser is to draw what it was sent so far, in a session's first run.

    It then asks again for all of the page.

    Charts take a browser a second to begin with, in which it draws and hears nothing else.
    """
    if st.session_state.get(DRAWN):
        return False
    _ask_again()
    return True


@st.fragment(run_every=0.2)
def _ask_again() -> None:
    """The second time it is the browser that calls."""
    if st.session_state.get(DRAWN):
        state.run_again()
    st.session_state[DRAWN] = True


def refuse(problem: str) -> None:
    """Say what is wrong, a paragraph for each problem, with a way back."""
    st.error(plain(problem), icon=":material/block:")
    if problem.startswith(limits.TOO_LARGE):
        _offer_few_steps(state.current().spec)
    st.button("undo the last change", on_click=state.undo, icon=":material/undo:", key="undo")


def _offer_few_steps(spec: Spec) -> None:
    """A button for as few steps as tell most, where the page then allows ``spec``."""
    few = few_steps(spec)
    with suppress(DpsimError):
        limits.check(scenario(few))
        steps = scenario(few).run.steps
        st.button(
            f"simulate {steps} steps",
            on_click=state.show_spec,
            args=(few,),
            icon=":material/play_arrow:",
            key="few steps",
        )


def why_not(found: Mapping[str, object], called: Callable[[str], str] = kind_words) -> None:
    """Say of each value without a result why that is, by what the value is called."""
    for value, each in found.items():
        if isinstance(each, DpsimError):
            reason = str(each).partition("\n")[0]
            st.caption(plain(f"{called(value)}: {reason_words(reason)}"))


def leave_others(page: str) -> None:
    """Stop what this session waited for on another page or in another view.

    It would take its time from what is asked now.
    """
    now = (page, state.current())
    if st.session_state.get(_SHOWN) != now:
        st.session_state[_SHOWN] = now
        for key in _waited().values():
            _leave(key)
        _waited().clear()


def _only(key: Hashable, function: Callable[[Report], T], *, can_wait: bool = False) -> Task[T]:
    """The task of ``key``; what the session waited for of its kind is left.

    One that was cancelled stays so until it is asked for.
    """
    before = _waited().get(_kind(key))
    if before == key and (known := state.tasks().known(key)) is not None:
        return known
    _leave(before)
    _waited()[_kind(key)] = key
    return state.tasks().start(key, function, _me(), can_wait=can_wait)


def _kind(key: Hashable) -> Hashable:
    return key[0] if isinstance(key, tuple) else key


def _waited() -> dict[Hashable, Hashable]:
    """What this session waits for, by kind."""
    waited: dict[Hashable, Hashable] = st.session_state.setdefault(_WAITED, {})
    return waited


def _leave(key: Hashable) -> None:
    if (task := state.tasks().known(key)) is not None:
        task.leave(_me())


def _me() -> str:
    """What this session is called: as Streamlit does, which knows when its tab has gone."""
    context = get_script_run_ctx(suppress_warning=True)
    if context is not None:
        return context.session_id
    return str(st.session_state.setdefault(_NAME, uuid4().hex))


def _forget(key: Hashable) -> None:
    _waited().pop(_kind(key), None)


@st.fragment(run_every=0.4)
def _progress(task: Task[T], what: str) -> None:
    # The whole page runs again, and draws the value where the bar was.
    if task.ended:
        state.run_again()
    if not task.begun:
        st.progress(0.0, text=f"{what}: after what is at work already")
    elif task.total:
        st.progress(task.done / task.total, text=f"{what}: {task.done:,} of {task.total:,}")
    else:
        st.progress(0.0, text=f"{what}: {task.done:,} done")
    st.button("cancel", on_click=task.cancel, key=f"cancel {what}", icon=":material/stop_circle:")
