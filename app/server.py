"""Serves the dashboard on this machine only, without telemetry."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import streamlit as st
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware

from app.policy import add_headers
from dpsim.report.theme import FONT, SURFACES

HOST = "127.0.0.1"
_MOST_UPLOAD_MB = 5
# Seconds between thread switches, so that a simulation does not block replies; Python has 5 ms.
_SWITCH = 0.001
_OF_SIDES = ("primaryColor", "textColor", "borderColor")


def serve(port: int, started: str, *, browser: bool) -> None:
    """Serve on ``port`` until interrupted.

    Prints ``started`` on stderr when it is up; with ``browser`` opens the page in one.
    """
    from dpsim.base.terminal import narrate

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        # Once the server is up: a browser loads its part of the page meanwhile.
        Thread(target=_warm, daemon=True).start()
        narrate(started)
        if browser:
            webbrowser.open(f"http://localhost:{port}")
        yield

    # Tasks' reports and figures are handled in this process.
    sys.setswitchinterval(_SWITCH)
    main = Path(__file__).with_name("main.py")
    policy = Middleware(BaseHTTPMiddleware, dispatch=add_headers)
    st.App(main, lifespan=lifespan, middleware=[policy]).run(config=_config(port))


def _config(port: int) -> dict[str, Any]:
    return {
        "server.address": HOST,  # no password protects it
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
    """Return the palette as Streamlit options; without a base, the browser's preference decides."""
    found: dict[str, Any] = {"theme.font": FONT}
    for mode, surface in SURFACES.items():
        colours = {
            "backgroundColor": surface.background,
            "secondaryBackgroundColor": surface.panel,
            "textColor": surface.text,
            "borderColor": surface.border,
            "linkColor": surface.link,
            "primaryColor": surface.link,
            "redTextColor": surface.bad,
            "greenTextColor": surface.good,
        }
        found |= {f"theme.{mode}.{key}": value for key, value in colours.items()}
        found |= {f"theme.{mode}.sidebar.{key}": colours[key] for key in _OF_SIDES}
    return found


def _warm() -> None:
    """Prepare the first page while the browser loads its part.

    Loads imports, the first preset and its figures.
    """
    from app import forms, state
    from app.answers import answer
    from app.presets import FIRST
    from app.spec import Spec
    from dpsim.report.figures.step_figures import breakdown_figure

    # The first process computes the first page while others start.
    Thread(target=state.tasks().warm, daemon=True).start()
    forms.whole()
    first = Spec(FIRST)
    shown = state.tasks().start((answer, first), partial(answer, first)).value()
    breakdown_figure([shown.result], ["now"])
