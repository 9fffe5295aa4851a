"""Serves the dashboard on this machine alone, and tells nobody."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import streamlit as st
from starlette.middleware import Middleware
from streamlit import runtime

from app.policy import Policy
from dpsim.report.theme import FONT, SERIES, SURFACES

HOST = "127.0.0.1"
_MOST_UPLOAD_MB = 5
# Seconds that a simulation keeps others from answering the browser; Python's own are 5 ms.
_SWITCH = 0.001
# How often to look whose tab has gone: work ends when it was twice found so.
_LOOK_S = 0.5
_OF_SIDES = ("primaryColor", "textColor", "borderColor")


def serve(port: int, started: str, *, browser: bool) -> None:
    """Serve on ``port`` until interrupted.

    Says ``started`` on stderr when it does; with ``browser`` opens the page in one.
    """
    from dpsim.base.terminal import narrate

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        # After the server is up: a browser loads its part of the page in that time.
        Thread(target=_warm, daemon=True).start()
        Thread(target=_leave_the_absent, daemon=True).start()
        narrate(started)
        if browser:
            webbrowser.open(f"http://localhost:{port}")
        yield

    from app import state

    state.work_apart()
    # What tasks report, and figures, are this process's.
    sys.setswitchinterval(_SWITCH)
    main = Path(__file__).with_name("main.py")
    st.App(main, lifespan=lifespan, middleware=[Middleware(Policy)]).run(config=_config(port))


def _config(port: int) -> dict[str, Any]:
    return {
        "server.address": HOST,  # it does what it is asked, and asks for no password
        "server.port": port,
        "server.headless": True,
        "server.fileWatcherType": "none",
        "server.maxUploadSize": _MOST_UPLOAD_MB,
        "browser.gatherUsageStats": False,
        "client.toolbarMode": "viewer",
        "client.showErrorDetails": "none",  # a traceback would show paths of this machine
        **_theme(),
    }


def _theme() -> dict[str, Any]:
    """The palette as Streamlit takes it; without a base, the browser's preference decides."""
    found: dict[str, Any] = {"theme.font": FONT, "theme.chartCategoricalColors": list(SERIES)}
    for mode, surface in SURFACES.items():
        own = {
            "backgroundColor": surface.background,
            "secondaryBackgroundColor": surface.panel,
            "textColor": surface.text,
            "borderColor": surface.border,
            "linkColor": surface.link,
            "primaryColor": surface.link,
            "redTextColor": surface.bad,
            "greenTextColor": surface.good,
        }
        found |= {f"theme.{mode}.{key}": value for key, value in own.items()}
        found |= {f"theme.{mode}.sidebar.{key}": own[key] for key in _OF_SIDES}
    return found


def _leave_the_absent() -> None:
    """Leave what tabs waited for that are gone: nobody would see it."""
    from app import state
    from app.work import NOBODY

    tasks = state.tasks()
    before: set[str] = set()
    while True:
        sleep(_LOOK_S)
        waiting = tasks.waiting() - {NOBODY}
        absent = {who for who in waiting if not runtime.get_instance().is_active_session(who)}
        # Twice, since a connection that is lost for a moment comes back as the same session.
        for who in absent & before:
            tasks.leave(who)
        before = absent


def _warm() -> None:
    """Do in advance what the first page needs, while the browser loads its part.

    Imports, the first preset, its figures.
    """
    from app import forms, state
    from app.pages_ import what_if
    from app.presets import FIRST
    from app.spec import Spec
    from app.waiting import in_advance

    # The page that comes first is computed in the first process while others start.
    Thread(target=state.tasks().warm, daemon=True).start()
    forms.whole()
    shown = in_advance(Spec(FIRST))
    what_if.breakdown(shown, None)
