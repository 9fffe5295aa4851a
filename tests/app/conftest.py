"""Opens pages; without streamlit there is nothing to test."""

import os
import sys

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip(
        "streamlit", reason="the dashboard needs streamlit: pip install -e '.[app]'"
    )

from app_pages import script, settled
from streamlit.testing.v1 import AppTest

from app import sidebar, state, waiting


@pytest.fixture(autouse=True)
def _main_module():
    """AppTest makes its script ``__main__``, and processes that others start would begin by running
    that.
    """
    before = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = before


@pytest.fixture
def open_page():
    """Opens a page at an address.

    ``open_page("compare", preset="...", set=[...])``; what is at work at the end is cancelled.
    """

    def opened(name, *, wait=True, choices=None, **query):
        page = AppTest.from_function(script, default_timeout=60, args=(name,))
        for key, value in {**query, **(choices or {})}.items():
            page.query_params[key.replace("_", "-")] = value
        for part in (*sidebar.PARTS, sidebar.IN_AND_OUT):
            page.session_state[f"part {part}"] = True
        page.session_state[waiting.DRAWN] = True
        page.run()
        return settled(page) if wait else page

    yield opened
    for task in list(state.tasks()._tasks.values()):
        task.cancel()
