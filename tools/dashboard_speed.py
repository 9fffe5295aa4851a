"""Measure how long users wait for the dashboard, in a real browser, and the server's work.

python -m tools.dashboard_speed            # ten presets, one change of nodes each
python -m tools.dashboard_speed --times 3  # the median of three each, with different seeds

First screen: from opening the address until the numbers appear. First number: from the key press
that changes the knob until a number of the first row changes. Settled: until every chart is redrawn
and only the search for improvements is still running. Times are wall-clock times, and so include
other work of the machine: the load is printed, with the server's processor time beside them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.request import urlopen

from app.presets import preset_names

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MOST = 10  # presets
_TIMEOUT_MS = 120_000.0  # ms
_NUMBER = ".dp-value"
_KNOB = "input[type=range][aria-label=nodes]"
# Compare all values of the first row, since twice the nodes may leave a hybrid job's step as is.
_NUMBERS = "[...document.querySelectorAll('.dp-value')].map((each) => each.innerText).join()"
_OTHER = f"(before) => ![before, ''].includes({_NUMBERS})"
_SETTLED = """() => document.querySelector("[data-test-script-state=notRunning]") !== null
  && document.querySelector("[data-testid=stElementContainer][data-stale=true]") === null
  && document.querySelectorAll(".js-plotly-plot").length >= 4
  && [...document.querySelectorAll("[role=progressbar]")]
    .every((each) => each.closest(".st-key-limits"))
"""


class Waited(NamedTuple):
    """Seconds to the first screen, the first number and the end, and of the server's processor."""

    opened: float
    number: float
    settled: float
    processor: float


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=1, help="turns a preset; medians are printed")
    times = parser.parse_args().times
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {times} turns a preset")
    rows = list(_rows(times))
    for name, row in rows:
        print(_line(name, row))
    print(_line("median", _median([row for _, row in rows])))


def _line(name: str, row: Waited) -> str:
    return "| " + " | ".join([f"{name:32}", *(f"{seconds:5.2f} s" for seconds in row)]) + " |"


def _rows(times: int) -> Iterator[tuple[str, Waited]]:
    with dashboard() as (address, process, browser):
        for preset in preset_names()[:MOST]:
            rows = []
            # Another seed each time, so that no earlier result is looked up.
            for seed in range(1, times + 1):
                page = browser.new_page(viewport={"width": 1440, "height": 1400}, bypass_csp=True)
                page.set_default_timeout(_TIMEOUT_MS)
                asked = f"{address}/?preset={preset}&set=run.seed%3D{seed}"
                rows.append(_measure_preset(page, asked, process))
                page.close()
            yield preset, _median(rows)


def _median(rows: list[Waited]) -> Waited:
    return Waited(*(statistics.median(column) for column in zip(*rows, strict=True)))


def _measure_preset(page: Page, address: str, process: int) -> Waited:
    """Measure one preset: its first screen, and a change of its knob."""
    begin = time.monotonic()
    page.goto(address)
    page.wait_for_selector(_NUMBER)
    opened = time.monotonic() - begin
    page.wait_for_function(_SETTLED)
    # Wait for the search for improvements, or it would take part in the first change.
    page.wait_for_function("document.querySelector('[role=progressbar]') === null")
    return Waited(opened, *_turn(page, process))


def _turn(page: Page, process: int) -> tuple[float, float, float]:
    """Return the seconds of doubling the nodes."""
    before = page.evaluate(_NUMBERS)
    used, begin = _processor(process), time.monotonic()
    page.locator(_KNOB).press("ArrowRight")
    page.wait_for_function(_OTHER, arg=before)
    first = time.monotonic() - begin
    page.wait_for_function(_SETTLED)
    settled = time.monotonic() - begin
    return first, settled, _processor(process) - used


def _processor(process: int) -> float:
    """Return the processor time of a process, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    # Fields 14 and 15 of proc(5), utime and stime; the first here is field 3.
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def dashboard() -> Iterator[tuple[str, int, Browser]]:
    """Run the dashboard on a free port; yield its address, its process, and a browser."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = f"from app.server import serve; serve({port}, 'started', browser=False)"
    server = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://localhost:{port}"
    try:
        _wait_for(f"{address}/_stcore/health")
        with (
            sync_playwright() as playwright,
            playwright.chromium.launch(executable_path=program, args=["--no-sandbox"]) as browser,
        ):
            yield address, server.pid, browser
    finally:
        server.terminate()
        server.wait()


def _wait_for(address: str) -> None:
    while True:
        try:
            with urlopen(address, timeout=5):  # nosec B310 - localhost, by this program
                return
        except OSError:
            time.sleep(0.1)


if __name__ == "__main__":
    main()
