"""The command: local only, without telemetry; missing packages and ports in use are errors."""

import importlib.util
import socket

import pytest
from typer.testing import CliRunner

from app import server
from dpsim import cli
from dpsim.base.errors import DpsimError, FailedError
from dpsim.commands import app as command


def test_it_is_bound_to_this_machine_without_telemetry(monkeypatch):
    requested = {}
    monkeypatch.setattr("streamlit.App.run", lambda self, config: requested.update(config))
    server.serve(8765, "started", browser=False)
    assert requested["server.address"] == "127.0.0.1"
    assert requested["server.port"] == 8765
    assert requested["browser.gatherUsageStats"] is False


def test_without_streamlit_it_says_what_to_install(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        command, "find_spec", lambda name: None if name == "streamlit" else found(name)
    )
    with pytest.raises(FailedError, match=r"needs streamlit; .* pip install -e '\.\[app\]'"):
        command.dashboard(8501, browser=False)


def test_a_port_in_use_is_reported():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            DpsimError, match=f"--port: must be a free port, but {port} cannot be had"
        ):
            command.dashboard(port, browser=False)


def test_help_has_an_example():
    assert "dpsim app --port 8600" in CliRunner().invoke(cli.app, ["app", "--help"]).stdout
