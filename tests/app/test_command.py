"""The command: bound to this machine, telling nobody; what is missing or taken is said."""

import importlib.util
import socket

import pytest
from typer.testing import CliRunner

from app import server
from dpsim import cli
from dpsim.base.errors import DpsimError, FailedError
from dpsim.commands import app as command


def test_it_is_bound_to_this_machine_and_tells_nobody(monkeypatch):
    asked = {}
    monkeypatch.setattr("streamlit.App.run", lambda self, config: asked.update(config))
    server.serve(8765, "started", browser=False)
    assert asked["server.address"] == "127.0.0.1"
    assert asked["server.port"] == 8765
    assert asked["browser.gatherUsageStats"] is False


def test_without_streamlit_it_says_what_to_install(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        command, "find_spec", lambda name: None if name == "streamlit" else found(name)
    )
    with pytest.raises(FailedError, match=r"needs streamlit; .* pip install -e '\.\[app\]'"):
        command.dashboard(8501, browser=False)


def test_a_port_that_is_taken_is_said():
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
