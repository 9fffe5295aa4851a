"""Waiting for work: the value where it comes at once, else how far it is with a way to cancel it; and what went wrong, in words."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

import streamlit as st

from app import state
from app.answers import Answer, answer
from app.reading import scenario
from app.spec import Spec
from app.work import Report, Task
from dpsim.errors import DpsimError
from dpsim.scenario import Scenario

T = TypeVar("T")

PATIENCE = 1.0  # seconds until progress is shown instead


def result_of(spec: Spec) -> Answer:
    """The answer to ``spec``; ends the page's run, with progress or what is wrong, where there is none yet."""
    scenario_of(spec)
    found = finished("simulating steps", ("answer", spec), lambda report: answer(spec, report))
    if found is None:
        st.stop()
    return found


def scenario_of(spec: Spec) -> Scenario:
    """The scenario of ``spec``; ends the page's run, with what is wrong, where it is none."""
    try:
        return scenario(spec)
    except DpsimError as error:
        refuse(str(error))
        st.stop()


def finished(what: str, key: Hashable, function: Callable[[Report], T], patience: float = PATIENCE) -> T | None:
    """What ``function`` came to; None while it is at work (its progress is drawn), was cancelled or went wrong (which is said).

    A session waits for one task of a kind (``key``'s first part) at a time: what it waited for before is cancelled.
    """
    task = _only(key, function)
    if not task.wait(patience):
        _progress(task, what)
        return None
    try:
        return task.value()
    except DpsimError as error:
        if task.cancelled:
            st.info("Cancelled.")
            st.button("start again", key=f"again {what}", on_click=_forget, args=(key,))
        else:
            refuse(str(error))
    return None


def refuse(problem: str) -> None:
    """Say what is wrong, a paragraph for each problem, with a way back."""
    st.error(problem.replace("\n", "\n\n"), icon=":material/block:")
    st.button("undo the last change", on_click=state.undo, icon=":material/undo:", key="undo")


def _only(key: Hashable, function: Callable[[Report], T]) -> Task[T]:
    """The task of ``key``; what the session waited for of its kind is cancelled, and stays so until asked for."""
    waited: dict[Hashable, Hashable] = st.session_state.setdefault("waited for", {})
    kind = key[0] if isinstance(key, tuple) else key
    before = waited.get(kind)
    if before == key and (known := state.tasks().known(key)) is not None:
        return known
    if before is not None and (old := state.tasks().known(before)) is not None and not old.ended:
        old.cancel()
    waited[kind] = key
    return state.tasks().start(key, function)


def _forget(key: Hashable) -> None:
    kind = key[0] if isinstance(key, tuple) else key
    st.session_state.get("waited for", {}).pop(kind, None)


@st.fragment(run_every=0.4)
def _progress(task: Task[T], what: str) -> None:
    if task.ended:
        st.rerun()
    if task.total:
        st.progress(task.done / task.total, text=f"{what}: {task.done:,} of {task.total:,}")
    else:
        st.progress(0.0, text=f"{what}: {task.done:,} done")
    st.button("cancel", on_click=task.cancel, key=f"cancel {what}", icon=":material/stop_circle:")
