"""Pages without a browser: Streamlit's AppTest runs one page's script and keeps what it would
show.
"""

import re
import time
from html import unescape

from app import share, sidebar

# So few steps and measurements that a page takes a moment.
QUICK = ("run.steps=2", "run.warmup=0", "replay.steps=4", "replay.points=2")

# With these open every widget and download is drawn.
EVERY_PART = (*sidebar.PARTS, sidebar.UPLOAD, share.MENU)

PATIENCE = 90_000  # a browser's, in ms: other work may share the cores


def script(name):
    from importlib import import_module

    from app import state, top

    state.load()
    top.draw()
    import_module(f"app.pages_.{name}").draw()
    state.write_address()


def is_waiting(page):
    return any((button.key or "").startswith("cancel ") for button in page.button)


def at_work():
    from app import state

    return [task for task in list(state.tasks()._tasks.values()) if not task.ended]


def settled(page, seconds=60):
    """The page when it waits for no more work."""
    end = time.monotonic() + seconds
    while is_waiting(page) and time.monotonic() < end:
        for task in at_work():
            task.wait(end - time.monotonic())
        page.run()
    assert not is_waiting(page), "still at work"
    return page


def charts(page):
    return len(page.get("plotly_chart"))


CARD = re.compile(
    r'<dt>(?P<name>.*?)</dt><dd><div class="dp-value">(?P<value>.*?)</div>.*?'
    r'(?:<div class="dp-delta[^"]*">(?P<delta>.*?)</div>)?</dd>'
)


def html(page):
    return "".join(each.proto.body for each in page.get("html"))


def metrics(page):
    """By the name of each number at the top of a page what it says, and its change."""
    return {
        unescape(card["name"]): (unescape(card["value"]), unescape(card["delta"] or "") or None)
        for card in CARD.finditer(html(page))
    }
