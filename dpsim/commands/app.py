"""``dpsim app``: the dashboard, on this machine only."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from dpsim.base.errors import DpsimError, FailedError, how_to_install

_HOST = "127.0.0.1"


def dashboard(
    port: Annotated[int, typer.Option(min=1024, max=65535, help="The port on localhost.")] = 8501,
    browser: Annotated[
        bool, typer.Option(help="Open it in the browser; only from a terminal.")
    ] = True,
) -> None:
    """Open the dashboard on localhost.

    Five pages: predict, compare, synchronise, learn, trust.

    Example: dpsim app --port 8600
    """
    if find_spec("streamlit") is None:
        raise FailedError(f"the dashboard needs streamlit; {how_to_install('app')}")
    _check(port)
    from app.server import serve

    serve(
        port,
        f"the dashboard is at http://localhost:{port} (Ctrl-C ends it)",
        browser=browser and sys.stdout.isatty(),
    )


def _check(port: int) -> None:
    """Raise DpsimError if the port is taken."""
    import socket  # here, since the list of all commands imports this file

    with socket.socket() as probe:
        # Like the server, accept a port that another process has just released.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            raise DpsimError(
                f"--port: must be a free port, but {port} cannot be had: {error.strerror}"
            ) from None
