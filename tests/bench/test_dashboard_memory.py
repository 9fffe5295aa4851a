"""Memory of the dashboard's processes while one page runs again and again, with a knob changed."""

import shutil
from pathlib import Path

import pytest

pytestmark = [pytest.mark.bench, pytest.mark.browser, pytest.mark.timeout(1200)]

NOTED = (20, 100, 200)  # reruns
GROWTH = 0.15  # from the first to the last: caches of scenarios and of results fill meanwhile
NUMBERS = "[...document.querySelectorAll('.dp-value')].map((each) => each.innerText).join()"
OTHER = f"(before) => ![before, ''].includes({NUMBERS})"


@pytest.fixture
def dashboard():
    """The dashboard's address and process, and a page of a browser."""
    pytest.importorskip("streamlit", reason="the dashboard needs streamlit")
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not (shutil.which("chromium") or shutil.which("google-chrome")):
        pytest.skip("no chromium is installed (Debian: apt-get install chromium)")
    from tools.dashboard_speed import dashboard

    with dashboard() as (address, process, browser):
        # The page's policy forbids `wait_for_function`, which evaluates text.
        page = browser.new_page(viewport={"width": 1440, "height": 1400}, bypass_csp=True)
        page.set_default_timeout(120_000)
        yield address, process, page


def status(process):
    text = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def resident(process):
    """MB that a process holds in memory."""
    return int(status(process)["VmRSS"].split()[0]) * 1024 / 1e6


def workers(process):
    """The processes that the server started, and those that these started."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if int(status(each.name)["PPid"]) == process:
                found += [int(each.name), *workers(int(each.name))]
        except FileNotFoundError:  # it has ended meanwhile
            continue
    return found


def test_memory_is_flat_over_reruns_of_a_page(measured, dashboard):
    address, process, page = dashboard
    page.goto(f"{address}/?set=run.steps=4&set=run.warmup=1")
    page.wait_for_selector(".dp-value")
    knob = page.get_by_label("batch per GPU", exact=True)
    held = []
    for rerun in range(1, NOTED[-1] + 1):
        before = page.evaluate(NUMBERS)
        knob.fill(str(rerun % 173 + 1))  # up to 173 fit into the GPU
        knob.press("Enter")
        page.wait_for_function(OTHER, arg=before)
        if rerun in NOTED:
            # Workers that were cancelled end, and others start: the largest of them counts.
            server_mb, worker_mb = resident(process), max(map(resident, workers(process)))
            held.append((server_mb, worker_mb))
            after = f"after {rerun} reruns"
            measured("dashboard, resident memory of the server", after, server_mb, unit="MB")
            measured(
                "dashboard, resident memory of its largest worker", after, worker_mb, unit="MB"
            )
    for of, first, last in zip(("server", "worker"), held[0], held[-1], strict=True):
        assert last < first * (1 + GROWTH), f"{of}: {first:.0f} MB, then {last:.0f} MB"
