"""Waiting for work.

Returns a value that is ready soon, or else draws the progress with a way to cancel it; and reports
errors in words.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache, partial
from typing import Any, TypeVar
from uuid import uuid4

import streamlit as st

from app import state
from app.answers import Answer, answer, few_steps, simulate_each
from app.plain import plain
from app.presets import FIRST
from app.reading import scenario
from app.spec import Spec
from app.words import kind_words, reason_words
from app.work import CancelledError, Task
from dpsim.base.errors import DpsimError, FailedError
from dpsim.engine import Result
from dpsim.scenario import Scenario

T = TypeVar("T")

PATIENCE = 1.0  # seconds until progress is shown
DRAWN = "drawn before"  # of a session: whether its browser has drawn a page
_SHOWN_KEY = "waited where"


def result_of(spec: Spec) -> Answer:
    """Return the answer to ``spec``.

    Ends the page's run, with progress or the error, where there is none yet.
    """
    scenario_of(spec)
    found = run_in_background("simulating steps", answer, spec)
    if found is None:
        st.stop()
    return found


def scenario_of(spec: Spec) -> Scenario:
    """Return the scenario of ``spec``; end the page's run, with the error, if it is invalid."""
    try:
        return scenario(spec)
    except DpsimError as error:
        refuse(str(error))
        st.stop()


def run_in_background(what: str, function: Callable[..., T], *args: Hashable) -> T | None:
    """Run ``function(*args, report)`` in a task; return its result, or None so far.

    After `PATIENCE` seconds it is None while the task is running (its progress is drawn), and if
    the task was cancelled or failed (which is shown). A task is kept by its arguments.
    """
    task = _task(function, *args)
    if not task.wait(PATIENCE):
        _draw_progress(task, what)
        return None
    return _value(task, what)


def simulated(
    specs: Mapping[str, Spec], what: str = "simulating"
) -> dict[str, Result | DpsimError] | None:
    """Return the result or the error of each of ``specs``; None as `run_in_background` does."""
    return run_in_background(what, simulate_each, tuple(specs.items()))


def in_fragment(
    what: str,
    function: Callable[..., T],
    *args: Hashable,
    patience: float,
    so_far: Callable[[Mapping[str, Any]], object] = lambda found: None,
) -> T | None:
    """Do as `run_in_background` does, in a fragment (`state.fragment`).

    Only the fragment reruns until it has the result. ``so_far`` draws the function's intermediate
    results. The task begins after `run_in_background`'s tasks.
    """
    task = _task(function, *args, can_wait=True)
    if not task.wait(patience):
        so_far(task.found)
        _draw_bar(task, what)
        # Streamlit's own timers rerun a fragment for as long as the page is open.
        _later()(key=f"later {what}", on_again_change=lambda: None)
        return None
    return _value(task, what)


@cache
def _later() -> Any:
    """Return a component that reruns the page or fragment that it is in, again and again."""
    return st.components.v2.component(
        "dpsim_later",
        # Streamlit sends one of two triggers at the same moment, so timers must not keep in step;
        # and a trigger beside a click would take its place: none while the page runs.
        js="""export default function ({parentElement, setTriggerValue}) {
          const here = parentElement, state = "data-test-script-state";
          const busy = `[${state}=running], [${state}=rerunRequested]`;
          here.again = () => document.querySelector(busy) ?? setTriggerValue("again", true);
          here.timer ??= setInterval(() => here.again(), 350 + 99 * Math.random());
          return () => clearInterval(here.timer);
        }""",
    )


def _value(task: Task[T], what: str) -> T | None:
    """Return the value of an ended task; None if there is none, and the reason is shown."""
    try:
        return task.value()
    except CancelledError:
        st.info("Cancelled.")
        st.button("start again", key=f"again {what}", on_click=task.leave, args=(_me(),))
    except DpsimError as error:
        refuse(str(error))
        if isinstance(error, FailedError) or "steps" in str(error):  # too large for this machine
            _offer_few_steps(state.current().spec)
    return None


def answer_if_ready(spec: Spec) -> Answer | None:
    """Return the answer to ``spec`` if it is available shortly; draw nothing."""
    task = _task(answer, spec)
    if not task.wait(PATIENCE):
        return None
    try:
        return task.value()
    except (CancelledError, DpsimError):
        return None


def let_draw() -> bool:
    """Return whether to end a session's first run here, so that the browser draws the page so far.

    The browser then requests the whole page. The first charts take it a second, during which it
    draws nothing else and ignores input.
    """
    if st.session_state.get(DRAWN):
        return False
    st.session_state[DRAWN] = True
    _later()(key="later charts", on_again_change=lambda: state.show(state.current()))
    return True


def refuse(problem: str) -> None:
    """Show the problems, a paragraph each, with a way back."""
    st.error(plain(problem), icon=":material/block:")
    undo = partial(state.show_spec, state.current().baseline or Spec(FIRST))
    st.button("undo the last change", on_click=undo, icon=":material/undo:", key="undo")


def _offer_few_steps(spec: Spec) -> None:
    """Draw a button to simulate fewer steps, if ``spec`` has more."""
    few = few_steps(spec)
    steps = scenario(few).run.steps
    if steps < scenario(spec).run.steps:
        st.button(
            f"simulate {steps} steps",
            on_click=state.show_spec,
            args=(few,),
            icon=":material/play_arrow:",
            key="few steps",
        )


def why_not(found: Mapping[str, object], called: Callable[[str], str] = kind_words) -> None:
    """Show the reason for each value without a result, by the value's display name."""
    for value, each in found.items():
        if isinstance(each, DpsimError):
            reason = str(each).partition("\n")[0]
            st.caption(plain(f"{called(value)}: {reason_words(reason)}"))


def leave_others(page: str) -> None:
    """Leave the tasks of this session for another page or another view.

    They would slow down the current ones.
    """
    now = (page, state.current())
    if st.session_state.get(_SHOWN_KEY) != now:
        st.session_state[_SHOWN_KEY] = now
        state.tasks().leave(_me())


def _task(function: Callable[..., T], *args: Hashable, can_wait: bool = False) -> Task[T]:
    """Return this session's task of ``function(*args, report)``."""
    call = partial(function, *args)
    return state.tasks().start((function, *args), call, _me(), can_wait=can_wait)


# After its tab is closed, no one sees the results of its tasks.
@st.cache_resource(
    scope="session", on_release=lambda me: state.tasks().leave(me), show_spinner=False
)
def _me() -> str:
    """Return the session's name."""
    return uuid4().hex


@st.fragment(run_every=0.4)
def _draw_progress(task: Task[T], what: str) -> None:
    # The whole page reruns, and draws the value in place of the bar.
    if task.ended:
        state.run_again()
    _draw_bar(task, what)


def _draw_bar(task: Task[T], what: str) -> None:
    if not task.begun:
        st.progress(0.0, text=f"{what}: queued")
    elif task.total:
        st.progress(task.done / task.total, text=f"{what}: {task.done:,} of {task.total:,}")
    else:
        st.progress(0.0, text=f"{what}: {task.done:,} done")
    st.button("cancel", on_click=task.cancel, key=f"cancel {what}", icon=":material/stop_circle:")
