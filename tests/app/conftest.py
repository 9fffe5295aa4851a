"""Opens pages; without streamlit there is nothing to test."""

import os
import shutil
import socket
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from urllib.request import urlopen

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip(
        "streamlit", reason="the dashboard needs streamlit: pip install -e '.[app]'"
    )

from app_pages import PATIENCE, script, settled
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from work_here import Here

from app import state, waiting, work
from app.pages_ import what_if
from app.work import CancelledError


@pytest.fixture(autouse=True)
def _main_module():
    """AppTest makes its script ``__main__``, and processes that others start would begin by running
    that.
    """
    before = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = before


@pytest.fixture(scope="session", autouse=True)
def _packages_are_scanned_once():
    """Streamlit looks through all that is installed, for components, at each AppTest's start."""
    with pytest.MonkeyPatch.context() as patch:
        scan = manifest_scanner.scan_component_manifests
        patch.setattr(manifest_scanner, "scan_component_manifests", cache(scan))
        yield


def _no_knob(spec, report):
    raise CancelledError


@pytest.fixture(autouse=True)
def _pages_wait_for_their_answers(monkeypatch):
    """Other work may share the cores: a page of a test shows an answer, not its progress."""
    monkeypatch.setattr(waiting, "PATIENCE", 30.0)


@pytest.fixture(autouse=True)
def _work_is_done_here(monkeypatch):
    """A page of a test computes in this process, where a test may replace what is computed."""
    monkeypatch.setattr(work, "Child", Here)


@pytest.fixture
def open_page(monkeypatch):
    """Opens a page at an address.

    ``open_page("compare", preset="...", set=[...])``; what is at work at the end is cancelled.
    ``parts`` of the sidebar are open besides those that are at first. To turn every knob takes many
    times as long as all else on the first page: without ``limits`` it is cancelled at once.
    """

    def opened(name, *, wait=True, limits=False, parts=(), choices=None, **query):
        if not limits:
            monkeypatch.setattr(what_if, "explained", _no_knob)
        page = AppTest.from_function(script, default_timeout=60, args=(name,))
        for key, value in {**query, **(choices or {})}.items():
            page.query_params[key.replace("_", "-")] = value
        page.session_state["all knobs"] = bool(parts)
        for part in parts:
            page.session_state[f"part {part}"] = True
        page.session_state[waiting.DRAWN] = True
        page.run()
        return settled(page) if wait else page

    yield opened
    for task in list(state.tasks()._tasks.values()):
        for session in task.waiting:
            task.leave(session)


def browser_program():
    return next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )


@pytest.fixture(scope="session")
def browser():
    program = browser_program()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    if program is None or sync_playwright is None:
        why = (
            "no chromium is installed (Debian: apt-get install chromium)"
            if program is None
            else "playwright is not installed"
        )
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def tab(server, browser):
    """One for all tests: what it has compiled for a page serves the next as well.

    The server starts beside the browser.
    """
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def lax(tab):
    """The tab, which ignores the policy of its pages as long as a module's tests run."""
    protocol = tab.context.new_cdp_session(tab)
    protocol.send("Page.setBypassCSP", {"enabled": True})
    yield tab
    protocol.send("Page.setBypassCSP", {"enabled": False})
    protocol.detach()


@pytest.fixture(scope="session")
def server():
    """Its process, which need not answer yet, and its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        str(Path(sys.executable).with_name("dpsim")),
        "app",
        "--port",
        str(port),
        "--no-browser",
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    yield server, f"http://localhost:{port}"
    server.terminate()
    server.communicate(timeout=30)


@pytest.fixture(scope="session")
def address(server):
    process, url = server
    wait_for(f"{url}/_stcore/health", process)
    return url


def wait_for(url, server, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert server.poll() is None, server.stderr.read()
        try:
            with urlopen(url, timeout=5) as answer:
                assert answer.status == 200
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"no answer from {url} in {seconds} s")
