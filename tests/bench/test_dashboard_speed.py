"""Speed of the first page.

From a cold start, and after each turn of a knob; seconds of a core, without the browser.
"""

import subprocess
import sys
import time

import pytest

from app.presets import preset_names
from app.reading import scenario
from app.spec import Spec

pytestmark = pytest.mark.bench

COLD = """
import sys, time
from streamlit.testing.v1 import AppTest
sys.path.append("tests")
from work_here import Here
from app import work
work.Child = Here
page = AppTest.from_file("app/main.py", default_timeout=60).run()  # the numbers
numbers = time.process_time()
page.run()  # the charts, when the browser has drawn those
print(numbers, time.process_time())
"""


def first_page():
    from app import state
    from app.pages_ import what_if

    state.load()
    what_if.draw()


@pytest.fixture
def opened(monkeypatch):
    """The first page over a preset, without the search for what limits it, which runs beside it."""

    testing = pytest.importorskip(
        "streamlit.testing.v1", reason="the dashboard needs streamlit: pip install -e '.[app]'"
    )
    from work_here import Here

    from app import state, work

    monkeypatch.setattr(work, "Child", Here)

    def at(preset):
        page = testing.AppTest.from_function(first_page, default_timeout=60)
        page.query_params["preset"] = preset
        page.session_state["drawn before"] = True
        return page.run()

    monkeypatch.setattr("app.pages_.what_if._draw_limits", lambda spec: None)
    yield at
    for task in list(state.tasks()._tasks.values()):
        for session in task.waiting:
            task.leave(session)


def test_the_first_page_from_a_cold_start(measured):
    pytest.importorskip(
        "streamlit", reason="the dashboard needs streamlit: pip install -e '.[app]'"
    )
    ran = subprocess.run([sys.executable, "-c", COLD], check=True, capture_output=True, text=True)
    numbers, charts = map(float, ran.stdout.split())
    measured("dashboard, first page", "from cold, numbers", numbers, limit=2)
    measured("dashboard, first page", "from cold, charts", charts, limit=3)


def numbers(page):
    """The row of numbers at the top, as HTML."""
    return next(each.proto.body for each in page.get("html") if "dp-row" in each.proto.body)


@pytest.mark.parametrize("preset", preset_names())
def test_a_knob(measured, opened, preset):
    page = opened(preset)
    before = numbers(page)
    batch = scenario(Spec(preset)).workload.batch_per_gpu // 2
    page.query_params["set"] = f"workload.batch_per_gpu={batch}"
    begin = time.process_time()
    page.run()
    taken = time.process_time() - begin
    assert numbers(page) != before
    # Steps of independent workers are confirmed by seven times as many.
    independent_workers = scenario(Spec(preset)).strategy.sync.kind == "asp"
    measured("dashboard, a turn of a knob", preset, taken, limit=2 if independent_workers else 1)
