"""Serves the dashboard on this machine alone, and tells nobody."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import streamlit as st
from starlette.middleware import Middleware

from app.assets import Assets

HOST = "127.0.0.1"
_MOST_UPLOAD_MB = 5
# Seconds that a simulation keeps others from answering the browser; Python's own are 5 ms.
_SWITCH = 0.001


def serve(port: int, started: str, *, browser: bool) -> None:
    """Serve on ``port`` until interrupted.

    Says ``started`` on stderr when it does; with ``browser`` opens the page in one.
    """
    from dpsim.base.terminal import narrate

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        # After the server is up: a browser loads its part of the page in that time.
        Thread(target=_warm, daemon=True).start()
        narrate(started)
        if browser:
            webbrowser.open(f"http://localhost:{port}")
        yield

    sys.setswitchinterval(_SWITCH)
    middleware = [Middleware(Assets)]
    st.App(Path(__file__).with_name("main.py"), lifespan=lifespan, middleware=middleware).run(
        config=_config(port)
    )


def _config(port: int) -> dict[str, Any]:
    return {
        "server.address": HOST,  # it does what it is asked, and asks for no password
        "server.port": port,
        "server.headless": True,
        "server.fileWatcherType": "none",
        "server.maxUploadSize": _MOST_UPLOAD_MB,
        "browser.gatherUsageStats": False,
        "client.toolbarMode": "minimal",
        "client.showErrorDetails": "none",  # a traceback would show paths of this machine
        "theme.base": "light",
        "theme.primaryColor": "#0072b2",
    }


def _warm() -> None:
    """Do in advance what the first page needs, while the browser loads its part.

    Imports, the first preset, its figures.
    """
    from app import forms
    from app.pages_ import what_if
    from app.presets import FIRST
    from app.spec import Spec
    from app.waiting import in_advance

    forms.whole()
    what_if.figures(in_advance(Spec(FIRST)), None)
